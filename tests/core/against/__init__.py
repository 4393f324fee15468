"""Does the core answer, publish and store what it did at an earlier commit?"""
