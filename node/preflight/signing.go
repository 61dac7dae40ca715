package preflight

import (
	"bytes"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/kmod/sign"
)

// CertificateFile is the name of the certificate file below the state folder. A start that is
// blocked by a missing key writes the certificate there, for mokutil on the host.
const CertificateFile = "module-signing.der"

// Verdict says whether a key of the kernel has signed a module. Whether the signature itself is
// valid, and whether the kernel has its hash, only the kernel can say: it does when it loads the
// module.
type Verdict string

// The verdicts.
const (
	// the kernel has a key of the signer's id, or of its name where the id is not known
	Trusted    Verdict = "trusted"
	Unsigned   Verdict = "unsigned"    //
	ForeignKey Verdict = "foreign-key" // the kernel does not have the signer's key
	// the signature, its key or the keys of the kernel cannot be seen
	NotSeen Verdict = "not-seen"
)

// Signature describes the signature of one module.
type Signature struct {
	Module string `json:"module"`
	// the certificate's name, or the issuer's if only that is known
	Signer  string  `json:"signer,omitempty"`
	KeyID   string  `json:"keyID,omitempty"` // in the kernel's format
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail,omitempty"` // why the signature cannot be read
}

// Signatures is the result of the check Signing in detail.
type Signatures struct {
	// module.sig_enforce, which Secure Boot switches on
	Enforced bool   `json:"enforced"`
	Lockdown string `json:"lockdown,omitempty"` // none, integrity, confidentiality
	// of the firmware; the two fields above are the kernel's
	SecureBoot bool        `json:"secureBoot"`
	KeysSeen   bool        `json:"keysSeen"`
	Keys       []Key       `json:"keys"`
	Modules    []Signature `json:"modules"`
	// the command that enrols the key, if that is missing
	Enrol string `json:"enrol,omitempty"`
}

// checkSigning has two rules where the kernel enforces signatures: a module must have one, and its
// signer must be among the kernel's keys. They are asked before anything is loaded, or compiled for
// minutes.
func checkSigning(in *Input) Check {
	if in.Stays {
		return skip("the driver that is loaded stays: no module is loaded")
	}
	t := in.readTrust()
	keys, seen := readKeys(in.Proc)
	s := &Signatures{
		Enforced:   t.enforced,
		Lockdown:   t.lockdown,
		SecureBoot: t.secureBoot,
		KeysSeen:   seen,
		Keys:       keys,
	}
	switch {
	case in.HaveModules && !in.Resign:
		for _, m := range in.Load {
			s.Modules = append(s.Modules, s.of(m, in.Certificate))
		}
	case in.SignWith != nil:
		s.Modules = []Signature{s.judge(Signature{}, in.SignWith, sign.Description{})}
	case in.CanCompile:
		s.Modules = []Signature{{Verdict: Unsigned}}
	default:
		return skip("there are no modules to judge")
	}
	c := s.result(in, t)
	c.Signatures = s
	return c
}

// of judges a module's file.
func (s *Signatures) of(m Loading, cert *x509.Certificate) Signature {
	g := Signature{Module: m.Name}
	d, err := describeSignature(m.Path)
	if err != nil {
		g.Verdict = NotSeen
		g.Detail = err.Error()
		return g
	}
	if d == nil {
		g.Verdict = Unsigned
		return g
	}
	if cert != nil && !namesSigner(*d, cert) {
		cert = nil
	}
	return s.judge(g, cert, *d)
}

// describeSignature describes the signature of a module's file; nil for one without.
func describeSignature(path string) (*sign.Description, error) {
	der, err := readSignature(path)
	if err != nil || der == nil {
		return nil, err
	}
	d, err := sign.Describe(der)
	return &d, err
}

// judge looks for the signer among the kernel's keys: by the certificate, else by what the
// signature says of it. A name alone proves nothing where it is not found, unless it is that of a
// distribution's key.
func (s *Signatures) judge(g Signature, cert *x509.Certificate, d sign.Description) Signature {
	name := printable(d.Issuer)
	id := hex.EncodeToString(d.KeyID)
	if cert != nil {
		name = ""
		id = keyID(cert)
		g.Signer = printable(cert.Subject.CommonName)
		if g.Signer == "" {
			g.Signer = printable(cert.Subject.String())
		}
	} else if g.Signer = name; id != "" {
		name = ""
	}
	g.KeyID = id
	if id == "" {
		g.KeyID = hex.EncodeToString(d.Serial)
	}
	_, ofDistribution := distros.FindModuleKey(d.Issuer)
	isNamed := cert == nil && ofDistribution // both names of the key are known, so its absence is too
	switch {
	case hasKey(s.Keys, name, id), isNamed && hasBuiltin(s.Keys, d.Issuer):
		g.Verdict = Trusted
	case s.KeysSeen && (id != "" || isNamed):
		g.Verdict = ForeignKey
	default:
		g.Verdict = NotSeen
	}
	return g
}

// readSignature returns the last signature of a module's file; nil when there is none.
func readSignature(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	_, der, err := sign.Split(f, info.Size())
	return der, err
}

// namesSigner says whether a signature names a certificate's key as its signer.
func namesSigner(d sign.Description, cert *x509.Certificate) bool {
	if d.KeyID != nil {
		return bytes.Equal(d.KeyID, cert.SubjectKeyId)
	}
	return bytes.Equal(d.Serial, serialBytes(cert)) &&
		(d.Issuer == "" || cert.Issuer.CommonName == "" || d.Issuer == cert.Issuer.CommonName)
}

// effect returns what a verdict means for a start.
func (t trust) effect(v Verdict) Status {
	switch {
	case v == Trusted, !t.strict() && (t.known || !t.secureBoot):
		return OK
	case t.strict() && v != NotSeen:
		return Blocked
	}
	return Warning
}

// result is that of the worst of the signatures.
func (s *Signatures) result(in *Input, t trust) Check {
	worst := OK
	for _, m := range s.Modules {
		if e := t.effect(m.Verdict); e == Blocked || worst == OK {
			worst = e
		}
	}
	reason, _ := t.requirement()
	findings := []string{reason}
	fixes := []string{}
	for i, m := range s.Modules {
		alike := func(o Signature) bool { o.Module = m.Module; return o == m }
		if t.effect(m.Verdict) != worst || slices.ContainsFunc(s.Modules[:i], alike) {
			continue
		}
		var names []string
		for _, o := range s.Modules {
			if alike(o) {
				names = append(names, o.Module)
			}
		}
		findings = append(findings, m.text(names, len(names) == len(s.Modules)))
		if fix := s.fix(in, t, m); !slices.Contains(fixes, fix) {
			fixes = append(fixes, fix)
		}
	}
	finding := strings.Join(findings, "; ")
	fix := strings.Join(fixes, " ")
	switch {
	case worst == Blocked:
		return block(fix, "%s", finding)
	case worst == Warning && !t.strict():
		return warn(
			"Give the container the host's /sys, or run `mokutil --sb-state` on the host; with enforcement, the modules must be signed with a key that the kernel knows.",
			"%s",
			finding,
		)
	case worst == Warning:
		return warn(fix, "%s", finding)
	case !t.known && t.lockdown == "":
		return skip(
			"whether the kernel asks for signed modules cannot be seen: %s has neither sig_enforce nor lockdown",
			in.Sys,
		)
	}
	return ok("%s", finding)
}

// text describes the signature of the modules with these names.
func (s Signature) text(names []string, all bool) string {
	subject := "the modules"
	have := "have"
	are := "are"
	if !all {
		subject = strings.Join(names, ", ")
		if len(names) == 1 {
			have = "has"
			are = "is"
		}
	}
	by := fmt.Sprintf("%s %s signed by %q (key %s)", subject, are, s.Signer, s.KeyID)
	switch {
	case s.Verdict == Unsigned:
		return fmt.Sprintf("%s %s no signature", subject, have)
	case s.Verdict == ForeignKey:
		return by + ", a key that the kernel does not know"
	case s.Detail != "":
		return fmt.Sprintf("the signature of %s cannot be read (%s)", subject, s.Detail)
	case s.Verdict == NotSeen:
		return by + ", and whether the kernel knows that key cannot be seen from here"
	}
	return by + ", which the kernel knows"
}

// fix says how to fix the finding.
func (s *Signatures) fix(in *Input, t trust, g Signature) string {
	_, what := t.requirement()
	builtin, ofDistribution := distros.FindModuleKey(g.Signer)
	off := ", or switch " + what + " off on this node."
	switch {
	case g.Verdict == Unsigned:
		return "Sign the modules with a key that the kernel trusts (enrolled with mokutil --import, or in the firmware's db): driver-build --module-key, or a key mounted into the container with --module-signing-key" + off
	case ofDistribution && g.Detail == "":
		return fmt.Sprintf(
			"The key %q is built into the kernels of %s, and no other kernel knows it: start the node with such a "+
				"kernel, or use an image whose modules are signed with a key of this machine's",
			builtin.Builtin,
			builtin.System,
		) + off
	case g.Verdict == ForeignKey && !t.efi: // the kernel's own keys are built in
		return "Sign the modules with a key that the kernel has built in: this machine was not started by UEFI, so that no other can be enrolled" + off
	case g.Verdict == ForeignKey:
		s.Enrol = "mokutil --import " + filepath.Join(in.StateDir, CertificateFile)
		return "Enrol the key: on the host run `" + s.Enrol + "` (nvidia-driver init writes that file when this stops it), give a password, then restart the machine and confirm with the password in MokManager (Enroll MOK). " +
			"Else use an image that is signed with a key of this machine's" + off
	case g.Detail != "":
		return "Pull the image again, or build it again; modules in " + filepath.Join(
			in.StateDir,
			"modules",
		) + " are compiled again once they are removed."
	}
	return "If the kernel refuses them, enrol the signer's certificate on the host (mokutil --import CERTIFICATE, then restart the machine)" + off
}
