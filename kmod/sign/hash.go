package sign

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	_ "crypto/sha1" //nolint:gosec // verified only, as kernels do: see ParseHash
	_ "crypto/sha256"
	_ "crypto/sha3"
	_ "crypto/sha512"
	"encoding/asn1"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/kmod/kmsg"
)

// algorithm is a hash with its names in PKCS#7, alone and together with ECDSA (kernel:
// include/linux/oid_registry.h).
type algorithm struct {
	name  string // in CONFIG_MODULE_SIG_HASH
	hash  crypto.Hash
	oid   asn1.ObjectIdentifier
	ecdsa asn1.ObjectIdentifier
	weak  bool // never used to sign
}

func nist(arc, n int) asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, arc, n}
}

func ecdsaWith(n int) asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, n}
}

// algorithms, in the order in which messages name them.
var algorithms = []algorithm{
	{"sha256", crypto.SHA256, nist(2, 1), ecdsaWith(2), false},
	{"sha384", crypto.SHA384, nist(2, 2), ecdsaWith(3), false},
	{"sha512", crypto.SHA512, nist(2, 3), ecdsaWith(4), false},
	{"sha224", crypto.SHA224, nist(2, 4), ecdsaWith(1), false},
	{"sha3-256", crypto.SHA3_256, nist(2, 8), nist(3, 10), false},
	{"sha3-384", crypto.SHA3_384, nist(2, 9), nist(3, 11), false},
	{"sha3-512", crypto.SHA3_512, nist(2, 10), nist(3, 12), false},
	{"sha1", crypto.SHA1, asn1.ObjectIdentifier{1, 3, 14, 3, 2, 26}, asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 1}, true},
}

// ParseHash returns the hash that the kernel's CONFIG_MODULE_SIG_HASH names: sha256, sha384,
// sha512, sha224, sha3-256, sha3-384, sha3-512 (Linux 6.7 and later). It refuses SHA-1, which can
// be forged: a kernel that names SHA-1 accepts sha256 as well, if that is built in.
func ParseHash(name string) (crypto.Hash, error) {
	var names []string
	for _, a := range algorithms {
		if a.weak {
			continue
		}
		if a.name == name {
			return a.hash, nil
		}
		names = append(names, a.name)
	}
	return 0, fmt.Errorf(
		"sign modules with the hash %q: want one of %s; SHA-1 can be forged, and a kernel that names it takes sha256 too",
		kmsg.Printable(name),
		strings.Join(names, ", "),
	)
}

// check reports whether this key made the signature over the digest.
func check(key crypto.PublicKey, hash crypto.Hash, digest, signature []byte) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, hash, digest, signature) == nil
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, digest, signature)
	}
	return false
}
