"""The conformance interpreter: scenarios recorded on the BEAM, run on lemon_otp. See README.md."""
