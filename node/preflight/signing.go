package preflight

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/node/keyrings"
)

// CertificateFile is the name of the certificate file below the state folder. A start that is blocked by a
// missing key writes the certificate there, for mokutil on the host.
const CertificateFile = "module-signing.der"

// Signatures is the result of the check Signing in detail.
type Signatures struct {
	Enforced      bool           `json:"enforced"`           // module.sig_enforce, which Secure Boot switches on
	Lockdown      string         `json:"lockdown,omitempty"` // none, integrity, confidentiality
	SecureBoot    bool           `json:"secureBoot"`         // of the firmware; the two fields above are the kernel's
	ValidationOff bool           `json:"validationOff"`      // in shim, by mokutil --disable-validation
	KernelSeen    bool           `json:"kernelSeen"`         // the kernel itself showed whether it enforces signatures
	KeysSeen      bool           `json:"keysSeen"`
	Keys          []keyrings.Key `json:"keys"`
	Modules       []Signature    `json:"modules"`
	Enrol         string         `json:"enrol,omitempty"` // the command that enrols the key, if that is missing
}

// checkSigning predicts whether the kernel will accept the modules, before anything is loaded or compiled for
// minutes.
func checkSigning(ctx context.Context, in *Input) result {
	if in.Stays {
		return skip("the driver that is loaded stays: no module is loaded")
	}
	t, keys := in.readTrust(), keyrings.Read(in.Proc, in.Members)
	s := &Signatures{Enforced: t.enforced, Lockdown: t.lockdown, SecureBoot: t.secureBoot, ValidationOff: t.shimOff, KernelSeen: t.known,
		KeysSeen: keys.Seen && keys.Exact, Keys: keys.Keys, Modules: in.signatures(ctx, keys, t)}
	if len(s.Modules) == 0 {
		return skip("there are no modules to judge")
	}
	r := s.judge(in, t)
	r.detail = s
	return r
}

// signatures returns a signature for every module that would be loaded; for modules that do not exist yet,
// the one signature that all of them will get.
func (in *Input) signatures(ctx context.Context, keys keyrings.Trusted, t trust) (list []Signature) {
	switch {
	case in.HaveModules && !in.Resign:
		for _, m := range in.Load {
			list = append(list, in.signatureOf(ctx, m, keys, t))
		}
	case in.SignWith != nil:
		list = append(list, in.signatureBy(in.SignWith, in.SignHash, keys))
	case in.CanCompile:
		list = append(list, Signature{Verdict: Unsigned})
	}
	return list
}

// judge returns the result for the worst of the signatures.
func (s *Signatures) judge(in *Input, t trust) result {
	order := []Status{OK, Warning, Blocked}
	worst := OK
	for _, m := range s.Modules {
		if e := m.Verdict.effect(t); slices.Index(order, e) > slices.Index(order, worst) {
			worst = e
		}
	}
	var findings, fixes []string
	for _, g := range s.groups(t, worst) {
		findings = append(findings, g.text(len(g.names) == len(s.Modules)))
		if fix := s.fix(in, t, g.Signature); !slices.Contains(fixes, fix) {
			fixes = append(fixes, fix)
		}
	}
	reason, _ := t.requirement()
	finding, fix := reason+"; "+strings.Join(findings, "; "), strings.Join(fixes, " ")
	switch {
	case worst == Blocked:
		return block(fix, "%s", finding)
	case worst == Warning && !t.strict() && t.secureBoot && !t.known:
		return warn("Give the container the host's /sys, or run `mokutil --sb-state` on the host; with enforcement, the modules must be signed with a key that the kernel knows.", "%s", finding)
	case worst == Warning:
		return warn(fix, "%s", finding)
	case !t.known && t.lockdown == "":
		return skip("whether the kernel asks for signed modules cannot be seen: %s has neither sig_enforce nor lockdown", in.Sys)
	default:
		return ok("%s", finding)
	}
}

// group is a set of modules with the same finding.
type group struct {
	Signature
	names []string
}

func (s *Signatures) groups(t trust, effect Status) (all []group) {
	for _, m := range s.Modules {
		if m.Verdict.effect(t) != effect {
			continue
		}
		i := slices.IndexFunc(all, func(g group) bool {
			return g.Verdict == m.Verdict && g.Signer == m.Signer && g.KeyID == m.KeyID && g.Hash == m.Hash
		})
		if i < 0 {
			all, i = append(all, group{Signature: m}), len(all)
		}
		all[i].names = append(all[i].names, m.Module)
	}
	return all
}

// text describes the signature of the modules. whole says that it is the same for all modules.
func (g group) text(whole bool) string {
	subject, have, are := "the modules", "have", "are"
	if !whole {
		subject = strings.Join(g.names, ", ")
		if len(g.names) == 1 {
			have, are = "has", "is"
		}
	}
	by := fmt.Sprintf("%s %s signed by %q (key %s, %s)", subject, are, g.Signer, g.KeyID, g.Hash)
	switch g.Verdict {
	case Unsigned:
		return fmt.Sprintf("%s %s no signature", subject, have)
	case Trusted:
		text := by + ", which the kernel knows (keyring " + g.Keyring + ")"
		if g.Keyring == keyrings.Platform {
			text += "; a kernel without a distribution's changes does not use that keyring for modules"
		}
		return joined(text, g.Detail)
	case ProbablyTrusted:
		return joined(by+", which the kernel probably knows", g.Detail)
	case ForeignKey:
		return by + ", a key that the kernel does not know"
	case ProbablyForeign:
		return by + ", and the kernel knows no key of that name"
	case KeysUnseen:
		return by + ", and the keys of the kernel cannot be seen from here"
	case NoHash:
		return by + ", and the kernel neither has " + g.Hash + " nor can load it"
	case HashUnseen:
		return by + ", and whether the kernel has " + g.Hash + " at hand cannot be seen from here"
	case Unsupported:
		return joined(fmt.Sprintf("%s %s signed in a way that the kernel does not know", subject, are), g.Detail)
	case Malformed:
		return joined(fmt.Sprintf("%s %s a broken signature, which kernels always refuse", subject, have), g.Detail)
	case Changed:
		return joined(by+", but the signature does not hold, which kernels always refuse where they know the key", g.Detail)
	default:
		return joined("the signature of "+subject+" cannot be read", g.Detail)
	}
}

func joined(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + " (" + detail + ")"
}

// fix says how to fix the finding.
func (s *Signatures) fix(in *Input, t trust, g Signature) string {
	_, what := t.requirement()
	off := ", or switch " + what + " off on this node."
	switch g.Verdict {
	case Unsigned:
		return "Sign the modules with a key that the kernel trusts (enrolled with mokutil --import, or in the firmware's db): driver-build --sign-key, or a key mounted into the container with --module-signing-key" + off
	case ForeignKey:
		return s.enrol(in, t) + off
	case ProbablyForeign, KeysUnseen:
		return "If the kernel refuses them, enrol the signer's certificate on the host (mokutil --import CERTIFICATE, then restart the machine)" + off
	case NoHash, HashUnseen:
		return fmt.Sprintf("Load the kernel's module for it on the host (modprobe %s_generic), or sign with the hash that the kernel uses itself, sha256 nearly everywhere.", g.Hash)
	case Unsupported:
		return "Sign the modules with driver-build sign, or the kernel's scripts/sign-file" + off
	case Malformed, Changed:
		where := "pull the image again, or build it again"
		if in.Source == "cache" {
			where = "remove the modules from " + filepath.Join(in.StateDir, "modules")
		}
		return "Take the modules as they were signed: " + where + ". Who strips modules must do so before they are signed."
	default:
		return "See why the file cannot be read."
	}
}

// enrol says how to add the key to the kernel's keys. Without UEFI no key can be added: the kernel's own are
// built in.
func (s *Signatures) enrol(in *Input, t trust) string {
	if !t.efi {
		return "Sign the modules with a key that the kernel has built in: this machine was not started by UEFI, so that no other can be enrolled"
	}
	s.Enrol = "mokutil --import " + filepath.Join(in.StateDir, CertificateFile)
	pending := ""
	if t.enrolPending {
		pending = " A key is waiting to be confirmed already: if it is this one, restarting is all that is left."
	}
	return "Enrol the key: on the host run `" + s.Enrol + "` (nvidia-driver init writes that file when this stops it), give a password, then restart the machine and confirm with the password in MokManager (Enroll MOK)." +
		pending + " Else use an image that is signed with a key of this machine's"
}
