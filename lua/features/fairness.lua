-- stub
Fairness.fields = { 'fair_by' }
Fairness.options = { 'fair_by' }
