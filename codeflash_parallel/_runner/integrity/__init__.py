"""Evidence that neither the test runner nor the package's own functions were replaced by the code under
test.

Offers: pytest_integrity.PytestIntegrity and CanaryTests, function_identity.own_parts and
FunctionIdentities.
Imports: _runner.session.
"""
