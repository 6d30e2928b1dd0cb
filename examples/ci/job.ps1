# Runs steps of one job of `torchwheel matrix` on Windows, in the checkout: job.ps1 tools, plan, build, inspect.
# Its variables are those of job.sh: JOB, JOB_TORCHWHEEL. PowerShell 7.4 or newer.
param([Parameter(Mandatory)][string[]]$Steps)
$ErrorActionPreference = 'Stop'
$PSNativeCommandUseErrorActionPreference = $true

foreach ($variable in ($env:JOB | ConvertFrom-Json).variables.PSObject.Properties) {
  Set-Item "env:$($variable.Name)" $variable.Value
}
$folder = '.torchwheel'

function Install-Tools {
  New-Item -ItemType Directory -Force $folder | Out-Null
  Add-Content (git rev-parse --git-path info/exclude) '/.torchwheel/'
  python -m venv .torchwheel/uv
  .torchwheel/uv/Scripts/python.exe -m pip install --upgrade pip uv
  .torchwheel/uv/Scripts/uv.exe venv --clear --python $env:JOB_PYTHON "$folder/env"
  Set-Content "$folder/torch.txt" "$env:JOB_TORCH"
  Set-Content "$folder/requires.txt" "$env:JOB_REQUIRES"
  .torchwheel/uv/Scripts/python.exe -m pip --python "$folder/env" install -r "$folder/torch.txt"
  .torchwheel/uv/Scripts/python.exe -m pip --python "$folder/env" install pip -r "$folder/requires.txt" $env:JOB_TORCHWHEEL
}

function Enter-Job {
  # The developer prompt, which has cl.exe on its path.
  $vswhere = "${env:ProgramFiles(x86)}/Microsoft Visual Studio/Installer/vswhere.exe"
  $studio = & $vswhere -latest -products * -property installationPath
  & "$studio/Common7/Tools/Launch-VsDevShell.ps1" -Arch amd64 -SkipAutomaticLocation
  & "$folder/env/Scripts/Activate.ps1"
  $env:SCCACHE_DIR = "$PWD/.torchwheel/keep/sccache"
}

function Invoke-Plan {
  if ($env:JOB_KIND -in 'tree', 'extension') { torchwheel plan $env:JOB_PROJECT }
}

function Invoke-Build {
  if ($env:JOB_KIND -eq 'tree') { torchwheel build $env:JOB_PROJECT -o "$folder/dist" }
  else { python -m pip wheel $env:JOB_PROJECT --no-deps --no-build-isolation -w "$folder/dist" }
}

function Invoke-Inspection {
  $gpus = @(-split "$env:JOB_GPUS" | ForEach-Object { '--gpu', $_ })
  torchwheel inspect @gpus (Get-ChildItem "$folder/dist/*.whl").FullName
}

foreach ($step in $Steps) {
  if ($step -ne 'tools') { Enter-Job }
  switch ($step) {
    'tools' { Install-Tools }
    'plan' { Invoke-Plan }
    'build' { Invoke-Build }
    'inspect' { Invoke-Inspection }
    default { throw "job.ps1: there is no step $step" }
  }
}
