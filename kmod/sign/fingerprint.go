package sign

import (
	"crypto/sha256"
	"encoding/hex"
)

// Fingerprint names a certificate: SHA-256 of its DER form, in hex.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}
