package flags

import (
	"crypto"
	"crypto/x509"
	"time"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/signature"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

// Trust says which public keys are trusted.
type Trust struct {
	Keys     []string // files
	Unsigned bool
}

// AddTo declares the flags.
func (k *Trust) AddTo(f *pflag.FlagSet) {
	f.StringArrayVar(&k.Keys, "key", nil, "`FILE` with public keys or certificates, one of which must have signed it (repeatable)")
	f.BoolVar(&k.Unsigned, "allow-unsigned", false, "do not look at signatures")
}

// Load reads the keys; there are none with --allow-unsigned.
func (k *Trust) Load() ([]crypto.PublicKey, error) {
	if k.Unsigned == (len(k.Keys) > 0) {
		return nil, session.Usagef("give --key FILE, or --allow-unsigned if who made it does not matter")
	}
	return PublicKeys("--key", k.Keys...)
}

// PublicKeys reads the files of a flag.
func PublicKeys(flag string, files ...string) (all []crypto.PublicKey, err error) {
	for _, file := range files {
		keys, err := keyfile.LoadPublic(file, time.Now())
		if err != nil {
			return nil, session.Usagef("%s: %w", flag, err)
		}
		for _, key := range keys {
			err = signature.CheckKey(key)
			if err != nil {
				return nil, session.Usagef("%s: %s: %w", flag, file, err)
			}
		}
		all = append(all, keys...)
	}
	return all, nil
}

// Certificates reads the files of --module-cert.
func Certificates(files ...string) (all []*x509.Certificate, err error) {
	for _, file := range files {
		certs, err := keyfile.LoadCertificates(file)
		if err != nil {
			return nil, session.Usagef("--module-cert: %w", err)
		}
		all = append(all, certs...)
	}
	return all, nil
}

// Certificate reads the only certificate of --module-cert.
func Certificate(file string) (*x509.Certificate, error) {
	all, err := Certificates(file)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, session.Usagef(
			"--module-cert %s: it holds %d certificates, give the one of the key",
			file,
			len(all),
		)
	}
	return all[0], nil
}
