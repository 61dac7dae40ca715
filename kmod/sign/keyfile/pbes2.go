package keyfile

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1" //nolint:gosec // as a part of HMAC, which is the standard's default
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	goasn1 "encoding/asn1"
	"errors"
	"fmt"
	"hash"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
	"golang.org/x/crypto/scrypt"
)

// Object identifiers of RFC 8018 and RFC 7914, by number.
const (
	oidPBES2  = "1.2.840.113549.1.5.13"
	oidPBKDF2 = "1.2.840.113549.1.5.12"
	oidScrypt = "1.3.6.1.4.1.11591.4.11"

	maxRounds = 20_000_000 // takes some seconds
	maxMemory = 256 << 20  // bytes, of scrypt
)

var (
	prfs = map[string]func() hash.Hash{"1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.8": sha256.New224,
		"1.2.840.113549.2.9": sha256.New, "1.2.840.113549.2.10": sha512.New384, "1.2.840.113549.2.11": sha512.New}
	keySizes = map[string]int{"2.16.840.1.101.3.4.1.2": 16, "2.16.840.1.101.3.4.1.22": 24, "2.16.840.1.101.3.4.1.42": 32} // AES-CBC
)

var errEncryption = errors.New("it is encrypted in a way that is not supported: convert it with: openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW")

// decryptPKCS8 decrypts an EncryptedPrivateKeyInfo as openssl writes it: PBES2 with PBKDF2 or scrypt, and
// AES-CBC.
func decryptPKCS8(der []byte, pass Passphrase) (any, error) {
	in := cryptobyte.String(der)
	var info, scheme, sealed cryptobyte.String
	if !in.ReadASN1(&info, asn1.SEQUENCE) || !info.ReadASN1(&scheme, asn1.SEQUENCE) || !info.ReadASN1(&sealed, asn1.OCTET_STRING) {
		return nil, errors.New("it is damaged")
	}
	name, parameters, ok := algorithmIdentifier(scheme)
	if !ok || name != oidPBES2 {
		return nil, errEncryption
	}
	var body, kdf, enc cryptobyte.String
	if !parameters.ReadASN1(&body, asn1.SEQUENCE) || !body.ReadASN1(&kdf, asn1.SEQUENCE) || !body.ReadASN1(&enc, asn1.SEQUENCE) {
		return nil, errors.New("it is damaged")
	}
	name, parameters, ok = algorithmIdentifier(enc)
	var iv cryptobyte.String
	size := keySizes[name]
	if !ok || size == 0 || !parameters.ReadASN1(&iv, asn1.OCTET_STRING) || len(iv) != aes.BlockSize {
		return nil, errEncryption
	}
	if len(sealed) == 0 || len(sealed)%aes.BlockSize != 0 {
		return nil, errors.New("it is damaged")
	}
	if pass == nil {
		return nil, fmt.Errorf("%w: the key is encrypted, and none was given", ErrPassphrase)
	}
	phrase, err := pass()
	if err != nil {
		return nil, fmt.Errorf("get the passphrase: %w", err)
	}
	defer clear(phrase)
	key, err := derive(kdf, phrase, size)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, len(sealed))
	defer clear(plain)
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, sealed)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > aes.BlockSize {
		return nil, fmt.Errorf("decrypt it: %w", ErrPassphrase)
	}
	// A wrong passphrase gives noise whose last byte can look right; the parser of the content finds that.
	private, err := x509.ParsePKCS8PrivateKey(plain[:len(plain)-padding])
	if err != nil {
		return nil, fmt.Errorf("decrypt it: %w (or it is damaged)", ErrPassphrase)
	}
	return private, nil
}

// derive derives the key from a passphrase with the file's parameters. These are bounded, so that a hostile
// file cannot keep the program busy.
func derive(kdf cryptobyte.String, phrase []byte, size int) ([]byte, error) {
	name, parameters, ok := algorithmIdentifier(kdf)
	var body, salt cryptobyte.String
	if !ok || !parameters.ReadASN1(&body, asn1.SEQUENCE) || !body.ReadASN1(&salt, asn1.OCTET_STRING) {
		return nil, errEncryption
	}
	switch name {
	case oidPBKDF2:
		var rounds int
		var prf cryptobyte.String
		var given bool
		if !body.ReadASN1Integer(&rounds) || rounds < 1 || rounds > maxRounds || !body.SkipOptionalASN1(asn1.INTEGER) ||
			!body.ReadOptionalASN1(&prf, &given, asn1.SEQUENCE) {
			return nil, errEncryption
		}
		h := prfs["1.2.840.113549.2.7"] // the standard's default
		if given {
			name, _, _ := algorithmIdentifier(prf)
			if h = prfs[name]; h == nil {
				return nil, errEncryption
			}
		}
		return pbkdf2.Key(h, string(phrase), salt, rounds, size)
	case oidScrypt:
		var n, r, p int
		if !body.ReadASN1Integer(&n) || !body.ReadASN1Integer(&r) || !body.ReadASN1Integer(&p) ||
			n < 2 || r < 1 || p < 1 || n > maxMemory/128 || r > maxMemory/128/n || p > 16 {
			return nil, errEncryption
		}
		return scrypt.Key(phrase, salt, n, r, p, size)
	}
	return nil, errEncryption
}

// algorithmIdentifier splits an AlgorithmIdentifier into its object identifier as text and its parameters.
func algorithmIdentifier(in cryptobyte.String) (name string, parameters cryptobyte.String, ok bool) {
	var oid goasn1.ObjectIdentifier
	ok = in.ReadASN1ObjectIdentifier(&oid)
	return oid.String(), in, ok
}
