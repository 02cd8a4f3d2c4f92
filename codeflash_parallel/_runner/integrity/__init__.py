"""Evidence that neither the test runner nor the package's own functions were replaced by the code under
test.

Offers: pytest_functions.PytestIntegrity, runner_functions.own_parts, function_identity.FunctionIdentities,
canary_tests.CanaryTests.
Imports: _runner.process.
"""
