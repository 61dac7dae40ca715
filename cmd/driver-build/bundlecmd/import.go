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
	"github.com/driver-container/driver-container/images/bundle/gathering"
	"github.com/driver-container/driver-container/images/bundle/importing"
	"github.com/driver-container/driver-container/images/bundle/inputs"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/bundle/recording"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/outfile"
)

const importLong = `Verify a bundle and push it into a registry. Nothing is pushed before all of it is verified. Only what the registry lacks is sent;
tags move last. Repeat the command to continue an import that was stopped.

FILE - reads stdin in one pass, such as the joined parts of a bundle that split has cut: blobs are then pushed as they pass, each verified, and tags move at the end.
stdout gets REFERENCE@sha256:... lines.`

// importFlags are the flags of bundle import.
type importFlags struct {
	importing.Options
	key            flags.Trust
	site           flags.ImageKey
	values, secret string
	inputs         string           // folder
	headers        string           // folder
	policy         string           // folder
	trusted        crypto.PublicKey // of the policy
	public         flags.PublicRegistry
}

func (o *importFlags) addTo(f *pflag.FlagSet) {
	f.StringVar(&o.To, "to", "", "REGISTRY/PATH that takes the place of the bundle's repository")
	f.StringArrayVar(&o.MountFrom, "mount-from", nil, "repository of the same registry that may have the blobs (repeatable)")
	f.BoolVar(&o.DryRun, "dry-run", false, "verify, ask the registry what it lacks, and push nothing")
	f.StringVar(&o.inputs, "inputs", "", "put the inputs of builds into the cache, for --offline, and other files into the folder DIR")
	f.StringVar(&o.headers, "headers", "", "write the mirror with kernel headers into the folder DIR, to serve it or to mount it into nodes' containers")
	f.StringVar(&o.values, "values", "", "write values for the chart into FILE; - is stdout")
	f.StringVar(&o.secret, "pull-secret", "", "name of the secret with the registry's credentials, for --values")
	f.StringVar(&o.policy, "policy", "", "write how Podman, CRI-O, OpenShift and policy-controller verify the images into the folder DIR")
	o.public.AddTo(f)
	o.key.AddTo(f)
	o.site.AddTo(f, "what is imported, under its names at the site,")
}

func newImport(a *session.App) *cobra.Command {
	var o importFlags
	cmd := &cobra.Command{
		Use: "import FILE --to REGISTRY/PATH", Short: "Verify a bundle and push it into a registry", Args: session.ExactArgs(1), Long: importLong,
		Example: "  driver-build bundle import fleet.tar --to registry.site/mirror/gpu/driver --key image.pub --values values.yaml",
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), a, args[0]) },
	}
	o.addTo(cmd.Flags())
	return cmd
}

func (o *importFlags) run(ctx context.Context, a *session.App, file string) (err error) {
	if err := imagename.CheckRepository(o.To); err != nil {
		return session.Usagef("--to: %w", err)
	}
	if err := o.check(); err != nil {
		return err
	}
	verify, keys, err := verifier(&o.key)
	if err != nil {
		return err
	}
	site, closer, err := imageSigner(a, &o.site)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closer()) }()
	switch {
	case site != nil:
		o.Sign, o.trusted = site, site.Public()
	case len(keys) == 1:
		o.trusted = keys[0]
	case o.policy != "":
		return session.Usagef("--policy: it has one key: give one --key, or --image-key")
	}
	o.Jobs, o.AllowPublic = a.Jobs, o.public.Allowed
	how := reading.Options{Verify: verify}
	if file == "-" {
		if o.inputs != "" || o.headers != "" {
			return session.Usagef("--inputs and --headers: the bundle must be a file, not a pipe")
		}
		return o.stream(ctx, a, how)
	}
	source, closeFile, err := open(file)
	if err != nil {
		return err
	}
	defer closeFile() //nolint:errcheck // read only
	b, findings, err := check(ctx, a, source, how)
	if err != nil {
		return err
	}
	if len(findings) > 0 {
		for _, f := range findings {
			fmt.Fprintln(a.Stderr, f)
		}
		return bundle.Unsound(findings)
	}
	for kind, dir := range map[bundle.Kind]string{bundle.Inputs: o.inputs, bundle.Headers: o.headers} {
		if dir == "" {
			continue
		}
		if err := inputs.Complete(b, kind); err != nil {
			return fmt.Errorf("--%s: %w", kind, err)
		}
	}
	return a.With(ctx, nil, a.Programs(ctx, "", true), func(ctx context.Context, s *session.Session) error {
		shown := steps{observe: s.Observe, name: "import"}
		o.Progress = shown.total(o.To)
		result, err := importing.Import(ctx, b, s.Registry, o.Options)
		if err = shown.end(err); err != nil {
			return err
		}
		if err := o.extract(ctx, s, b); err != nil {
			return err
		}
		return o.report(a, b.List, result)
	})
}

// extract writes the files of a bundle that was verified and imported.
func (o *importFlags) extract(ctx context.Context, s *session.Session, b *reading.Bundle) error {
	if o.inputs != "" && !o.DryRun {
		if _, err := inputs.Adopt(ctx, b, s.Store); err != nil {
			return fmt.Errorf("--inputs: %w", err)
		}
		if _, err := inputs.Extract(ctx, b, o.inputs); err != nil {
			return fmt.Errorf("--inputs: %w", err)
		}
	}
	if o.headers != "" && !o.DryRun {
		if err := recording.Extract(ctx, b, o.headers); err != nil {
			return fmt.Errorf("--headers: %w", err)
		}
	}
	return nil
}

// check says what is wrong with the flags, before a file is read.
func (o *importFlags) check() error {
	for _, m := range o.MountFrom {
		if err := imagename.CheckRepository(m); err != nil {
			return session.Usagef("--mount-from: %w", err)
		}
	}
	if o.values != "" && o.values != "-" {
		if err := outfile.CheckReplace(o.values); err != nil {
			return session.Usagef("--values: %w", err)
		}
	}
	for name, dir := range map[string]string{"inputs": o.inputs, "headers": o.headers, "policy": o.policy} {
		if dir == "" {
			continue
		}
		if err := outfile.CheckFolder(dir); err != nil {
			return session.Usagef("--%s: %w", name, err)
		}
	}
	return nil
}

func (o *importFlags) stream(ctx context.Context, a *session.App, how reading.Options) error {
	return a.With(ctx, nil, a.Programs(ctx, "", true), func(ctx context.Context, s *session.Session) error {
		stream, err := reading.Open(ctx, a.Input(ctx), how)
		if err != nil {
			return err
		}
		fmt.Fprintln(a.Stderr, "from a pipe: blobs are pushed as they pass; nothing gets a name before all of it is verified")
		shown := steps{observe: s.Observe, name: "import"}
		o.Progress = shown.total(o.To)
		result, err := importing.Stream(ctx, stream, s.Registry, o.Options)
		if err = shown.end(err); err != nil {
			return err
		}
		return o.report(a, stream.List, result)
	})
}

func (o *importFlags) report(a *session.App, l *bundle.List, r *importing.Result) error {
	for _, ref := range r.References() {
		a.Result(ref)
	}
	fmt.Fprintf(a.Stderr, "blobs: %d sent (%.1f MB)\n", r.Sent, float64(r.Bytes)/1e6)
	if o.Sign != nil {
		fmt.Fprintf(a.Stderr, "signed with the site's key: %d images and artifacts\n", r.Signed)
	}
	return errors.Join(writeText(a.Stdout, o.values, r.Values(o.secret)), o.writePolicy(a, l.Origin))
}

func (o *importFlags) writePolicy(a *session.App, origin string) error {
	if o.policy == "" {
		return nil
	}
	if o.Sign != nil {
		origin = ""
	}
	files, err := importing.Policies(origin, o.To, o.trusted)
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

func have(ctx context.Context, a *session.App, s *session.Session, repository string) error {
	stock, err := gathering.Stock(ctx, s.Registry, repository)
	if err != nil {
		return err
	}
	return a.JSON(stock)
}
