package bundlecmd

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/outfile"
)

const importLong = `Verify a bundle and push it into a registry. Nothing is pushed before all of it is verified. Only what the registry lacks is sent;
tags move last. Repeat the command to continue an import that was stopped.

FILE - reads stdin in one pass, such as the joined parts of a bundle that split has cut: blobs are then pushed as they pass, each verified, and tags move at the end.

stdout gets REFERENCE@sha256:... lines.`

// importFlags are the flags of bundle import.
type importFlags struct {
	bundle.ImportOptions
	key            flags.Trust
	site           flags.ImageKey
	values, secret string
	inputs         string           // folder
	headers        string           // folder
	policy         string           // folder
	trusted        crypto.PublicKey // of the policy
	public         flags.PublicRegistry
}

func newImport(a *session.App) *cobra.Command {
	var o importFlags
	cmd := &cobra.Command{
		Use: "import FILE --to REGISTRY/PATH", Short: "Verify a bundle and push it into a registry", Args: cobra.ExactArgs(1), Long: importLong,
		Example: "  driver-build bundle import fleet.tar --to registry.site/mirror/gpu/driver --key image.pub --values values.yaml",
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), a, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.To, "to", "", "`REGISTRY/PATH` that takes the place of the bundle's repository")
	flags.AddMountFromTo(f, a)
	f.BoolVar(
		&o.DryRun,
		"dry-run",
		false,
		"verify, ask the registry what it lacks, and push nothing",
	)
	folder := session.Valid(outfile.CheckFolder)
	f.Var(
		session.String(&o.inputs, folder),
		"inputs",
		"put the inputs of builds into the cache, for --offline, and other files into the folder `DIR`",
	)
	f.Var(
		session.String(&o.headers, folder),
		"headers",
		"write the mirror with kernel headers into the folder `DIR`, to serve it or to mount it into nodes' containers",
	)
	f.Var(
		session.String(&o.values, session.Valid(outfile.CheckReplace).Or("-")),
		"values",
		"write values for the chart into `FILE`; - is stdout",
	)
	session.Rare(f, func(f *pflag.FlagSet) {
		f.StringVar(
			&o.secret,
			"pull-secret",
			"",
			"name of the secret with the registry's credentials, for --values",
		)
	})
	f.Var(
		session.String(&o.policy, folder),
		"policy",
		"write how Podman, CRI-O, OpenShift and policy-controller verify the images into the folder `DIR`",
	)
	o.public.AddTo(f)
	o.key.AddTo(f)
	o.site.AddTo(f, "what is imported, under its names at the site,")
	return cmd
}

func (o *importFlags) run(ctx context.Context, a *session.App, file string) (err error) {
	if err := o.check(file); err != nil {
		return err
	}
	keys, err := o.key.Load()
	if err != nil {
		return err
	}
	o.Sign, err = o.site.Load(a)
	if err != nil {
		return err
	}
	switch {
	case o.Sign != nil:
		o.trusted = o.Sign.Public()
	case len(keys) == 1:
		o.trusted = keys[0]
	case o.policy != "":
		return session.Usagef("--policy: it has one key: give one --key, or --image-key")
	}
	o.Jobs = a.Jobs
	o.AllowPublic = o.public.Allowed
	var b *bundle.Bundle
	if file != "-" {
		b, err = o.checked(ctx, a, file, keys)
		if err != nil {
			return err
		}
	}
	return a.Connect(ctx, nil, nil, func(ctx context.Context, s *session.Session) error {
		if b == nil {
			var err error
			b, err = bundle.Open(a.Input(ctx))
			if err != nil {
				return err
			}
			err = b.VerifySignature(keys)
			if err != nil {
				return err
			}
			fmt.Fprintln(
				a.Stderr,
				"from a pipe: blobs are pushed as they pass; nothing gets a name before all of it is verified",
			)
		}
		return o.push(ctx, a, s, b)
	})
}

// checked opens a file that is sound and has what the flags ask for.
func (o *importFlags) checked(
	ctx context.Context,
	a *session.App,
	name string,
	keys []crypto.PublicKey,
) (*bundle.Bundle, error) {
	file, err := open(a, name)
	if err != nil {
		return nil, err
	}
	b, findings, err := check(ctx, a, name, file, keys)
	for _, f := range findings {
		fmt.Fprintln(a.Stderr, f)
	}
	if err != nil {
		return nil, err
	}
	err = bundle.Unsound(findings)
	if err != nil {
		return nil, err
	}
	if o.inputs != "" {
		err = b.Complete(bundle.Inputs)
		if err != nil {
			return nil, err
		}
	}
	if o.headers != "" {
		err = b.Complete(bundle.Headers)
	}
	return b, err
}

// push imports, and writes what the flags ask for.
func (o *importFlags) push(
	ctx context.Context,
	a *session.App,
	s *session.Session,
	b *bundle.Bundle,
) error {
	var r *bundle.Result
	err := shown(s.Builder.Observe, "import", o.To, func(report func(done, total int64)) (err error) {
		o.Progress = report
		r, err = b.Import(ctx, s.Builder.Registry, o.ImportOptions)
		return err
	})
	if err != nil {
		return err
	}
	if o.inputs != "" && !o.DryRun {
		if err := errors.Join(b.Adopt(ctx, s.Builder.Store), b.Extract(ctx, bundle.Inputs, o.inputs)); err != nil {
			return fmt.Errorf("--inputs: %w", err)
		}
	}
	if o.headers != "" && !o.DryRun {
		if err := b.Extract(ctx, bundle.Headers, o.headers); err != nil {
			return fmt.Errorf("--headers: %w", err)
		}
	}
	for _, ref := range r.References() {
		a.Result(ref)
	}
	fmt.Fprintf(a.Stderr, "blobs: %d sent (%.1f MB)\n", r.Sent, float64(r.Bytes)/1e6)
	if o.Sign != nil {
		fmt.Fprintf(a.Stderr, "signed with the site's key: %d images and artifacts\n", r.Signed)
	}
	return errors.Join(
		writeText(a.Stdout, o.values, r.Values(o.secret)),
		o.writePolicy(a, b.List.Origin),
	)
}

// check says what is wrong with the flags, before a file is read.
func (o *importFlags) check(file string) error {
	if err := imagename.CheckRepository(o.To); err != nil {
		return session.Usagef("--to: %w", err)
	}
	if file == "-" && (o.inputs != "" || o.headers != "") {
		return session.Usagef("--inputs and --headers: the bundle must be a file, not a pipe")
	}
	return nil
}

func (o *importFlags) writePolicy(a *session.App, origin string) error {
	if o.policy == "" {
		return nil
	}
	if o.Sign != nil {
		origin = ""
	}
	files, err := bundle.Policies(origin, o.To, o.trusted)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err = errors.Join(err, writeText(a.Stdout, filepath.Join(o.policy, name), files[name]))
	}
	return err
}

// writeText writes a text to a file that the user named.
func writeText(stdout io.Writer, file, text string) error {
	fill := func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
	switch file {
	case "":
		return nil
	case "-":
		return fill(stdout)
	}
	if err := outfile.Replace(file, fill); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
