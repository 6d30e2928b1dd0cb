@rem Prints the environment that Visual Studio's batch file makes, as JSON after its own output.
@call "%TORCHWHEEL_VCVARSALL%" %1
@"%TORCHWHEEL_PYTHON%" -I -c "import json, os; print(); print(json.dumps(dict(os.environ)))"
