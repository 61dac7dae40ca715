package rpmfile

import (
	"fmt"
	"time"
)

// installedTags maps entries of the signature header to the tags under which the database stores them (rpm's
// headerMergeLegacySigs).
var installedTags = []struct{ signature, installed Tag }{
	{SigTagSize, TagSigSize},
	{SigTagPGP, TagSigPGP},
	{SigTagMD5, TagSigMD5},
	{SigTagGPG, TagSigGPG},
	{SigTagPayloadSize, TagArchiveSize},
	{SigTagFileSignatures, TagFileSignatures},
	{SigTagFileSigLength, TagFileSigLength},
	{TagVeritySignatures, TagVeritySignatures},
	{TagVeritySigAlgo, TagVeritySigAlgo},
	{TagSHA1Header, TagSHA1Header},
	{TagSHA256Header, TagSHA256Header},
	{TagSHA3256Header, TagSHA3256Header},
	{TagDSAHeader, TagDSAHeader},
	{TagRSAHeader, TagRSAHeader},
	{TagOpenPGP, TagOpenPGP},
	{TagLongSigSize, TagLongSigSize},
	{TagLongArchiveSize, TagLongArchiveSize},
}

// stateNotInstalled is rpm's RPMFILE_STATE_NOTINSTALLED.
const stateNotInstalled = 2

// InstalledHeader returns the record that rpm writes into its database after it has installed the package:
// the header, its signatures and digests, the time in seconds, the states of the files (all installed), and
// the colour of the system. The colour is 3 if packages of 64 and 32 bits share a system, as on x86_64 (rpm's
// _transaction_color), otherwise 0. The number of the transaction is the time. rpm --verify and rpm -q use
// all of it.
//
// Files for which left returns true, by their absolute paths, are recorded as not installed, as rpm does with
// documentation if it leaves that out: rpm --verify then does not report them as missing. With nil, all files
// are installed.
func (f *File) InstalledHeader(installed time.Time, colour uint32, left func(path string) bool) (*Header, error) {
	var add []Entry
	for _, t := range installedTags {
		e, ok := f.Signature.get(t.signature)
		if !ok || f.Header.Has(t.installed) {
			continue // some old packages have the size of their archive in the header
		}
		kept, err := e.entry(t.installed)
		if err != nil {
			return nil, fmt.Errorf("rpm %s: record of the installation: %w", f.name(), err)
		}
		add = append(add, kept)
	}
	seconds := []uint32{uint32(installed.Unix())}
	add = append(add,
		Entry{TagInstallTime, TypeInt32, seconds},
		Entry{TagInstallTID, TypeInt32, seconds},
		Entry{TagInstallColor, TypeInt32, []uint32{colour}})
	if n := len(f.files); n > 0 {
		states := make([]byte, n) // 0 is "normal"
		for i := range f.files {
			if left != nil && left(f.files[i].path) {
				states[i] = stateNotInstalled
			}
		}
		add = append(add, Entry{TagFileStates, TypeChar, states})
	}
	h, err := f.Header.With(add...)
	if err != nil {
		return nil, fmt.Errorf("rpm %s: record of the installation: %w", f.name(), err)
	}
	return h, nil
}

// entry returns the value in the form for With, with another tag.
func (e entry) entry(tag Tag) (Entry, error) {
	h := &Header{entries: []entry{e}, byTag: map[Tag]int{e.tag: 0}}
	out := Entry{Tag: tag, Type: e.kind}
	switch e.kind {
	case TypeChar, TypeInt8, TypeBinary:
		out.Value = e.data
	case TypeInt16:
		out.Value = narrow[uint16](h.Ints(e.tag))
	case TypeInt32:
		out.Value = narrow[uint32](h.Ints(e.tag))
	case TypeInt64:
		out.Value = h.Ints(e.tag)
	case TypeString:
		out.Value = h.Text(e.tag)
	case TypeStringArray, TypeI18NString:
		out.Value = h.Texts(e.tag)
	default:
		return out, fmt.Errorf("tag %d: %w: type %d", e.tag, ErrFormat, e.kind)
	}
	return out, nil
}

func narrow[T uint16 | uint32](values []uint64) []T {
	out := make([]T, len(values))
	for i, v := range values {
		out[i] = T(v)
	}
	return out
}
