package keyfile

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des" //nolint:gosec // openssl req of OpenSSL 3.0 encrypts keys with it
	"crypto/pbkdf2"
	"crypto/sha1" //nolint:gosec // as a part of HMAC, which is the standard's default
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"

	"golang.org/x/crypto/scrypt"
)

// Object identifiers of RFC 8018 and RFC 7914, by number.
const (
	oidPBES2  = "1.2.840.113549.1.5.13"
	oidPBKDF2 = "1.2.840.113549.1.5.12"
	oidScrypt = "1.3.6.1.4.1.11591.4.11"

	oidTripleDES = "1.2.840.113549.3.7"

	maxRounds = 20_000_000 // takes some seconds
	maxMemory = 256 << 20  // bytes, of scrypt
)

var (
	prfs = map[string]func() hash.Hash{
		"":                    sha1.New, /* the standard's default */
		"1.2.840.113549.2.7":  sha1.New,
		"1.2.840.113549.2.8":  sha256.New224,
		"1.2.840.113549.2.9":  sha256.New,
		"1.2.840.113549.2.10": sha512.New384,
		"1.2.840.113549.2.11": sha512.New,
	}
	// all CBC
	keySizes = map[string]int{
		"2.16.840.1.101.3.4.1.2":  16,
		"2.16.840.1.101.3.4.1.22": 24,
		"2.16.840.1.101.3.4.1.42": 32,
		oidTripleDES:              24,
	}
)

var errEncryption = errors.New(
	"it is encrypted in a way that is not supported: convert it with: openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW",
)

// encryptedKey is an EncryptedPrivateKeyInfo, with the parameters of PBES2.
type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Sealed    []byte
}

type pbes2 struct{ KDF, Cipher pkix.AlgorithmIdentifier }

type pbkdf2Parameters struct {
	Salt      []byte
	Rounds    int
	KeyLength int                      `asn1:"optional"`
	PRF       pkix.AlgorithmIdentifier `asn1:"optional"`
}

type scryptParameters struct {
	Salt                      []byte
	Cost, BlockSize, Parallel int
	KeyLength                 int `asn1:"optional"`
}

// decode decodes a piece of DER.
func decode(der []byte, into any) bool {
	rest, err := asn1.Unmarshal(der, into)
	return err == nil && len(rest) == 0
}

// decryptPKCS8 decrypts an EncryptedPrivateKeyInfo as openssl writes it: PBES2 with PBKDF2 or
// scrypt, and AES or triple DES.
func decryptPKCS8(der []byte, pass Passphrase) (any, error) {
	var key encryptedKey
	var scheme pbes2
	var iv []byte
	if !decode(der, &key) {
		return nil, errors.New("it is damaged")
	}
	if key.Algorithm.Algorithm.String() != oidPBES2 ||
		!decode(key.Algorithm.Parameters.FullBytes, &scheme) {
		return nil, errEncryption
	}
	oid := scheme.Cipher.Algorithm.String()
	newBlock := aes.NewCipher
	blockSize := aes.BlockSize
	if oid == oidTripleDES {
		newBlock = des.NewTripleDESCipher
		blockSize = des.BlockSize
	}
	size := keySizes[oid]
	if size == 0 || !decode(scheme.Cipher.Parameters.FullBytes, &iv) || len(iv) != blockSize {
		return nil, errEncryption
	}
	if len(key.Sealed) == 0 || len(key.Sealed)%blockSize != 0 {
		return nil, errors.New("it is damaged")
	}
	if pass == nil {
		return nil, fmt.Errorf("%w: the key is encrypted, and none was given", ErrPassphrase)
	}
	phrase, err := pass.orEmpty()
	if err != nil {
		return nil, err
	}
	defer clear(phrase)
	secret, err := derive(scheme.KDF, phrase, size)
	if err != nil {
		return nil, err
	}
	defer clear(secret)
	block, err := newBlock(secret)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, len(key.Sealed))
	defer clear(plain)
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, key.Sealed)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > blockSize {
		return nil, fmt.Errorf("decrypt it: %w", ErrPassphrase)
	}
	// A wrong passphrase gives noise whose last byte can look right; the parser of the content
	// finds that.
	private, err := x509.ParsePKCS8PrivateKey(plain[:len(plain)-padding])
	if err != nil {
		return nil, fmt.Errorf("decrypt it: %w (or it is damaged)", ErrPassphrase)
	}
	return private, nil
}

// derive derives the key from a passphrase with the file's parameters. These are bounded, so that a
// hostile file cannot keep the program busy.
func derive(kdf pkix.AlgorithmIdentifier, phrase []byte, size int) ([]byte, error) {
	switch kdf.Algorithm.String() {
	case oidPBKDF2:
		var p pbkdf2Parameters
		if !decode(kdf.Parameters.FullBytes, &p) || p.Rounds < 1 || p.Rounds > maxRounds {
			return nil, errEncryption
		}
		h := prfs[p.PRF.Algorithm.String()]
		if h == nil {
			return nil, errEncryption
		}
		return pbkdf2.Key(h, string(phrase), p.Salt, p.Rounds, size)
	case oidScrypt:
		var p scryptParameters
		if !decode(kdf.Parameters.FullBytes, &p) || p.Cost < 2 || p.BlockSize < 1 ||
			p.Parallel < 1 ||
			p.Parallel > 16 ||
			p.Cost > maxMemory/128 ||
			p.BlockSize > maxMemory/128/p.Cost {
			return nil, errEncryption
		}
		return scrypt.Key(phrase, p.Salt, p.Cost, p.BlockSize, p.Parallel, size)
	}
	return nil, errEncryption
}
