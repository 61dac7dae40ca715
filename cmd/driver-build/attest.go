package main

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/signature"
)

const attestLong = `Sign images and attach documents to them, where they are: in a registry, a layout (oci:DIR:TAG) or an archive of one image
(oci-archive:FILE). The index and every image in it are signed, under the name of the repository and each tag. Nothing is sent to
a transparency log. What the key has signed already is not signed again; what others signed stays.

With a key elsewhere, sign what is in DIR there, with the commands of docs/trust.md#sign:
  driver-build sign-image IMAGE --sbom FILE --export DIR
  driver-build sign-image IMAGE --sbom FILE --import DIR --image-public-key K

Without a key, --sbom alone attaches the document as a referrer, which anyone could have written.`

const attestExample = `  driver-build sign-image registry.example.com/gpu/driver:580.178.04-ubuntu22.04 --image-key image.key --vex driver.openvex.json
  driver-build sbom oci:dist | driver-build sign-image oci:dist --repository registry.example.com/gpu/driver --image-key image.key --sbom -`

// attestFlags are the flags of the command sign-image.
type attestFlags struct {
	signer               flags.ImageSigner
	repository           string
	tags, archs          []string
	sbom, vex, predicate string // files
	predicateType        string
	export, answers      string // folders
}

func newAttestCmd(a *session.App) *cobra.Command {
	var o attestFlags
	cmd := &cobra.Command{
		Use: "sign-image IMAGE...", Short: "Sign images, attach SBOMs and other documents", Long: attestLong, Example: attestExample,
		Args: session.ImageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), a, args) },
	}
	f := cmd.Flags()
	o.signer.AddTo(f)
	f.Var(
		session.String(&o.repository, session.Valid(imagename.CheckRepository)),
		"repository",
		"`REGISTRY/PATH` that signatures state (default: that of IMAGE in a registry)",
	)
	f.Var(
		session.Array(&o.tags, session.Valid(imagename.CheckTag)),
		"tag",
		"further `TAG` that signatures state (repeatable; always: that of IMAGE)",
	)
	f.Var(
		session.Slice(&o.archs, session.Valid(matrix.CheckArch)),
		"arch",
		"`ARCH`: the documents are about these images of an index only (repeatable; default: the index and all)",
	)
	f.StringVar(
		&o.sbom,
		"sbom",
		"",
		"attach an SBOM: `FILE` (SPDX or CycloneDX, JSON) or - for stdin",
	)
	f.StringVar(&o.vex, "vex", "", "attach statements about vulnerabilities: `FILE` (OpenVEX) or -")
	session.Rare(f, func(f *pflag.FlagSet) {
		f.StringVar(
			&o.predicate,
			"predicate",
			"",
			"attach another document: FILE (JSON) or -, with --type",
		)
		f.StringVar(
			&o.predicateType,
			"type",
			"",
			"type of --predicate: a URI, such as https://slsa.dev/provenance/v1",
		)
	})
	f.Var(
		session.String(&o.export, session.Valid(kernelmodules.CheckRequestFolder)),
		"export",
		"write into `DIR` what an offline signer has to sign",
	)
	const importUsage = "attach the signatures that an offline signer left in `DIR`"
	f.StringVar(&o.answers, "import", "", importUsage)
	return cmd
}

func (o *attestFlags) check(refs []string) error {
	ways := countSet(o.signer.Key.Key+o.signer.Program, o.export, o.answers)
	switch {
	case ways > 1:
		return session.Usagef(
			"sign-image: give one of --image-key or --image-signer, --export DIR and --import DIR",
		)
	case ways == 0 && (o.vex != "" || o.predicate != ""):
		return session.Usagef(
			"--vex and --predicate are attestations, which are signed: give --image-key or --image-signer",
		)
	case ways == 0 && o.sbom == "":
		return session.Usagef(
			"sign-image: give --image-key KEY or --image-signer PROGRAM to sign, or --export DIR for a key elsewhere",
		)
	case o.answers != "" && o.signer.PublicKey == "":
		return session.Usagef(
			"--import: give --image-public-key FILE too: the signatures are verified with it",
		)
	case (o.export != "" || o.answers != "") && len(refs) > 1:
		return session.Usagef("--export and --import are about one IMAGE")
	case (o.predicate == "") != (o.predicateType == ""):
		return session.Usagef("--predicate FILE and --type URI belong together")
	}
	for _, ref := range refs {
		if oci.IsLocal(ref) && o.repository == "" && o.signer.Format != signature.Bundle &&
			(o.signer.Signs() || o.export != "" || o.answers != "") {
			return session.Usagef(
				"sign-image %s: a signature states the image's name: give --repository REGISTRY/PATH",
				ref,
			)
		}
	}
	if o.answers == "" {
		return nil
	}
	return checkExported(o.answers, signature.ListName)
}

func (o *attestFlags) run(ctx context.Context, a *session.App, refs []string) (err error) {
	if err := errors.Join(o.signer.Check(o.export != "" || o.answers != ""), o.check(refs)); err != nil {
		return err
	}
	plan := attestation.Publication{Format: o.signer.Format}
	plan.Documents, err = o.documents(ctx, a)
	if err != nil {
		return session.Usage(err)
	}
	public, err := o.signer.Public()
	if err != nil {
		return err
	}
	plan.Signer, err = o.signer.Load(a)
	if err != nil {
		return err
	}
	return a.Connect(ctx, nil, nil, func(ctx context.Context, s *session.Session) error {
		for _, ref := range refs {
			image, err := attestation.Open(ctx, s.Builder.Registry.Target(), ref)
			if err != nil {
				return err
			}
			plan, err := plan.For(image, o.repository, o.tags, o.archs)
			if err != nil {
				return err
			}
			if o.answers != "" {
				plan.Signer = signature.Imported{Dir: o.answers, Key: public}
			}
			if err := plan.CheckVEX(ctx, s.Builder.Registry.Target(), s.Builder.Layers(), image); err != nil {
				return fmt.Errorf("--vex %s: %w", o.vex, err)
			}
			if o.export != "" {
				err = o.writeRequest(a, plan, image, public)
			} else {
				err = attach(ctx, a, s, plan, image, ref)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// documents reads the files.
func (o *attestFlags) documents(
	ctx context.Context,
	a *session.App,
) (all []attestation.Document, err error) {
	var stdin io.Reader
	for _, d := range []struct {
		flag, file string
		parse      func([]byte) (attestation.Document, error)
	}{
		{"--sbom", o.sbom, attestation.SBOM}, {"--vex", o.vex, attestation.VEX},
		{"--predicate", o.predicate, func(raw []byte) (attestation.Document, error) { return attestation.NewDocument(o.predicateType, raw) }},
	} {
		switch {
		case d.file == "":
			continue
		case d.file == "-" && stdin != nil:
			return nil, fmt.Errorf("%s -: stdin has one document", d.flag)
		case d.file == "-":
			stdin = a.Input(ctx)
		}
		raw, err := attestation.ReadDocument(d.file, stdin)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", d.flag, d.file, err)
		}
		document, err := d.parse(raw)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", d.flag, d.file, err)
		}
		all = append(all, document)
	}
	return all, nil
}

// writeRequest writes what an offline signer needs.
func (o *attestFlags) writeRequest(
	a *session.App,
	plan attestation.Publication,
	image *attestation.Finished,
	public crypto.PublicKey,
) error {
	request, _, err := plan.Request(image.Artifact, image.Have)
	if err != nil {
		return err
	}
	n, err := signature.Export(o.export, request, public)
	if err != nil {
		return fmt.Errorf("--export: %w", err)
	}
	fmt.Fprintf(a.Stderr, "%d messages to sign\n", n)
	a.Result(filepath.Join(o.export, signature.ListName))
	return nil
}

// attach attaches what the plan has, and prints the image's name.
func attach(
	ctx context.Context,
	a *session.App,
	s *session.Session,
	plan attestation.Publication,
	image *attestation.Finished,
	ref string,
) error {
	all, err := plan.Attachments(ctx, image.Artifact, image.Have)
	if err != nil {
		return fmt.Errorf("sign-image %s: %w", ref, err)
	}
	err = image.Attach(ctx, s.Builder.Registry, all)
	if err != nil {
		return fmt.Errorf("sign-image %s: %w", ref, err)
	}
	if len(all) == 0 {
		fmt.Fprintf(a.Stderr, "%s: it has all of it already\n", ref)
	}
	name, _, _ := strings.Cut(ref, "@")
	a.Result(name + "@" + image.Digest.String())
	return nil
}
