-- stub
function LimitView.of_job()
  return nil
end
