"""OTP-style supervision on asyncio."""
