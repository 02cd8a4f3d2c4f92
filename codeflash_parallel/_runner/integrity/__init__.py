"""Evidence that neither the test runner nor the package's own functions were replaced by the code under
test.

Offers: pytest_functions.PytestIntegrity, function_identity.own_parts and FunctionIdentities,
canary_tests.CanaryTests.
Imports: _runner.session.
"""
