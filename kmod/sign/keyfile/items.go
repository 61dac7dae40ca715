package keyfile

import (
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"github.com/driver-container/driver-container/distros/bounded"
)

// maxKeyFile bounds files of keys and certificates, in bytes.
const maxKeyFile = 1 << 20

// kind is the type of a piece of DER.
type kind string

const (
	kindCertificate kind = "certificate"
	kindPKCS1       kind = "PKCS#1"
	kindSEC1        kind = "SEC1"
	kindPKCS8       kind = "PKCS#8"
	kindEncrypted   kind = "encrypted PKCS#8"
	kindPKCS12      kind = "PKCS#12"
	kindSigstore    kind = "encrypted by sigstore"
	kindPublic      kind = "public key"
	kindPublicRSA   kind = "public key, PKCS#1"
)

// pemKinds has the kinds of PEM's labels; blocks with other labels are skipped.
var pemKinds = map[string]kind{
	"CERTIFICATE":                    kindCertificate,
	"X509 CERTIFICATE":               kindCertificate,
	"RSA PRIVATE KEY":                kindPKCS1,
	"EC PRIVATE KEY":                 kindSEC1,
	"PRIVATE KEY":                    kindPKCS8,
	"ENCRYPTED PRIVATE KEY":          kindEncrypted,
	"ENCRYPTED SIGSTORE PRIVATE KEY": kindSigstore,
	"ENCRYPTED COSIGN PRIVATE KEY":   kindSigstore,
	"PUBLIC KEY":                     kindPublic,
	"RSA PUBLIC KEY":                 kindPublicRSA,
}

// item is one key or certificate of a file.
type item struct {
	kind kind
	der  []byte // kindSigstore: JSON
}

func (i item) private() bool {
	return i.kind != kindCertificate && i.kind != kindPublic && i.kind != kindPublicRSA
}

// readItems reads a file of keys and certificates and returns at least one item.
func readItems(path string) ([]item, error) {
	data, err := bounded.File(path, maxKeyFile)
	if errors.Is(err, bounded.ErrTooLarge) {
		err = fmt.Errorf("%w: it holds no key or certificate", err)
	}
	if err != nil {
		return nil, err
	}
	return parseItems(data)
}

func parseItems(data []byte) ([]item, error) {
	if k := sniff(data); k != "" {
		return []item{{k, data}}, nil
	}
	var items []item
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		data = rest
		if strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return nil, errors.New(
				"its private key is encrypted in the old PEM way, which protects it badly: convert it with: openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW",
			)
		}
		if k := pemKinds[block.Type]; k != "" {
			items = append(items, item{k, block.Bytes})
		}
	}
	if len(items) > 0 {
		return items, nil
	}
	if len(data) > 1 && data[0] == 0x30 && data[1] == 0x80 {
		return nil, errors.New(
			"it is BER of indefinite length: convert it with openssl, for PKCS#12: openssl pkcs12 -in OLD -out NEW.pem",
		)
	}
	return nil, errors.New(
		"it holds no key or certificate: neither PEM nor DER of PKCS#8, PKCS#1, SEC1, PKCS#12, X.509 or a public key, nor a key of cosign",
	)
}

// sniff returns the kind of a piece of DER by the types of its first fields; "" for anything else,
// such as text.
func sniff(der []byte) kind {
	in := cryptobyte.String(der)
	var fields cryptobyte.String
	var version int64
	if !in.ReadASN1(&fields, asn1.SEQUENCE) {
		return ""
	}
	// algorithm and ciphertext, or the signed part and the rest
	if fields.PeekASN1Tag(asn1.SEQUENCE) {
		switch ok := fields.SkipASN1(asn1.SEQUENCE); {
		case ok && fields.PeekASN1Tag(asn1.OCTET_STRING):
			return kindEncrypted
		case ok && fields.PeekASN1Tag(asn1.BIT_STRING):
			return kindPublic
		}
		return kindCertificate
	}
	if !fields.ReadASN1Integer(&version) {
		return ""
	}
	switch {
	case fields.PeekASN1Tag(asn1.INTEGER):
		return kindPKCS1
	case fields.PeekASN1Tag(asn1.OCTET_STRING):
		return kindSEC1
	case !fields.SkipASN1(asn1.SEQUENCE):
		return ""
	case version == 3:
		return kindPKCS12
	}
	return kindPKCS8
}
