package keyfile

import (
	"testing"
	"time"
)

func FuzzLoad(f *testing.F) {
	for _, name := range []string{"pbkdf2.pem", "pbkdf2-sha1.der", "legacy.pem", "cert.pem", "sigstore.pem"} {
		f.Add(read(f, "testdata/"+name))
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		items, err := parseItems(data)
		if err != nil {
			return
		}
		for _, it := range items {
			if it.kind != kindEncrypted && it.kind != kindPKCS12 && it.kind != kindSigstore { // those are slow on purpose
				_, _, _ = it.open(nil)
				_, _ = it.public(time.Unix(0, 0))
			}
		}
	})
}
