package rpm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/pgp"
	"github.com/driver-container/driver-container/distros/redact"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

// open finds the folders of a repository and takes the first valid repomd.xml. A mirror that is
// outdated, broken or forged costs one more request.
func (r *repo) open(ctx context.Context, o Options) error {
	ring, err := o.keysFor(r.source)
	if err != nil {
		return err
	}
	if err := r.prepareKeys(ring); err != nil {
		return err
	}
	if err := r.findFolders(ctx, o); err != nil {
		return err
	}
	r.client, err = o.access().Client(r.source, r.folders)
	if err != nil {
		return err
	}
	quick := *r.client
	if len(r.folders) > 1 && quick.Attempts == 0 {
		quick.Attempts = 2
	}
	t := pgp.Trust{
		Ring:         ring,
		Now:          o.Now,
		AllowExpired: o.AllowExpired,
		Hint:         "name one of the base with gpgkey, or give it in the matrix",
	}
	var worst error // an unreachable mirror is less bad than another fault
	for _, folder := range r.folders[:min(len(r.folders), tryMirrors)] {
		err := r.openAt(ctx, &quick, folder, o, t)
		if err == nil {
			return o.remember(r)
		}
		if ctx.Err() != nil {
			return err
		}
		if worst == nil ||
			errors.Is(worst, fetch.ErrUnreachable) && !errors.Is(err, fetch.ErrUnreachable) {
			worst = err
		}
	}
	return worst
}

// prepareKeys decides what vouches for the packages: repomd.xml, or the signature of each package
// by one of the source's keys.
func (r *repo) prepareKeys(ring pgp.Ring) error {
	s := r.source
	if s.RepoGPGCheck {
		return nil
	}
	if !s.GPGCheck && s.Key == "" {
		r.notes = append(r.notes, "nothing vouches for what it holds but the file system it is on")
		return nil
	}
	r.keys = ring.Fingerprints()
	if len(r.keys) > 0 {
		// one of the named keys may be the right one, so unreadable ones are worth a note
		if len(s.GPGKeys) > 0 {
			r.notes = append(r.notes, ring.Notes...)
		}
		return nil
	}
	err := distros.BadSources(
		"its packages must be signed (gpgcheck=1), and there is no key to check that with; name one of the base with " +
			"gpgkey, or give it in the matrix",
	)
	for _, note := range ring.Notes {
		err = fmt.Errorf("%w; %s", err, note)
	}
	return err
}

// findFolders fetches the mirror list or the metalink and adds its folders after the base URLs of
// the source.
func (r *repo) findFolders(ctx context.Context, o Options) error {
	from := cmp.Or(r.source.Metalink, r.source.MirrorList)
	if from == "" || len(r.folders) > 0 && r.source.Metalink == "" {
		return nil
	}
	client, err := o.access().Client(r.source, []string{from})
	if err != nil {
		return err
	}
	data, err := client.Latest(ctx, from, maxMirrorList)
	if err != nil {
		return fmt.Errorf("mirror list: %w", err)
	}
	r.mirrors, err = parseMirrors(data, o.Vars)
	if err != nil {
		return fmt.Errorf("mirror list %s: %w", redact.URL(from), err)
	}
	r.folders = slices.Clone(r.folders)
	for _, folder := range r.mirrors.folders {
		moved, _ := o.Mirror.Replace(folder, repoconf.Rebase(o.Mirror))
		r.folders = append(r.folders, moved)
	}
	return nil
}

// openAt fetches, verifies and reads the repomd.xml of one folder.
func (r *repo) openAt(
	ctx context.Context,
	client *fetch.Client,
	folder string,
	o Options,
	t pgp.Trust,
) error {
	const name = "/repodata/repomd.xml"
	text, err := client.Latest(ctx, folder+name, maxRepomd)
	if err != nil {
		return err
	}
	if !r.mirrors.permits(text) {
		return distros.BadIndex(
			"%s%s is not one that its metalink names (a mirror in the middle of an update? then try again in some minutes)",
			redact.URL(folder),
			name,
		)
	}
	if r.source.RepoGPGCheck {
		sig, err := client.Latest(ctx, folder+name+".asc", 1<<20)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf(
				"%w: it has no repomd.xml.asc, and its source says to check that (repo_gpgcheck, or gpgcheck of zypper); "+
					"if its packages are signed, set repo_gpgcheck=0, gpgcheck=1 and gpgkey",
				pgp.ErrSignature,
			)
		} else if err != nil {
			return err
		}
		if err := t.Detached(text, sig); err != nil {
			return fmt.Errorf("file repomd.xml.asc: %w", err)
		}
	}
	md, err := parseRepomd(text)
	if err != nil {
		return err
	}
	if err := o.notOlder(r, md); err != nil {
		return err
	}
	r.notes = append(r.notes, md.notes...)
	r.md = md
	r.digest = fmt.Sprintf("%x", sha256.Sum256(text))
	r.base = folder
	return nil
}
