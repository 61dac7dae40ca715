package rpmfile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"
)

// installedTags maps entries of the signature header to the tags under which the database stores
// them (rpm's headerMergeLegacySigs).
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

// InstalledHeader returns the record that rpm writes into its database after it has installed the
// package: the header, its signatures and digests, the time in seconds, the states of the files
// (all installed), and the colour of the system. The colour is 3 if packages of 64 and 32 bits
// share a system, as on x86_64 (rpm's _transaction_color), otherwise 0. The number of the
// transaction is the time. rpm --verify and rpm -q use all of it.
//
// Files for which left returns true, by their absolute paths, are recorded as not installed, as rpm
// does with documentation if it leaves that out: rpm --verify then does not report them as missing.
// With nil, all files are installed.
func (f *File) InstalledHeader(
	installed time.Time,
	colour uint32,
	left func(path string) bool,
) (*Header, error) {
	var add []entry
	for _, t := range installedTags {
		e, ok := f.Signature.get(t.signature)
		// some old packages have the size of their archive in the header
		if ok && !f.Header.Has(t.installed) {
			e.tag = t.installed
			add = append(add, e)
		}
	}
	number := func(tag Tag, n uint32) entry {
		return entry{
			tag:   tag,
			kind:  TypeInt32,
			count: 1,
			data:  binary.BigEndian.AppendUint32(nil, n),
		}
	}
	seconds := uint32(installed.Unix())
	add = append(
		add,
		number(TagInstallTime, seconds),
		number(TagInstallTID, seconds),
		number(TagInstallColor, colour),
	)
	if n := len(f.files); n > 0 {
		states := make([]byte, n) // 0 is "normal"
		for i := range f.files {
			if left != nil && left(f.files[i].path) {
				states[i] = stateNotInstalled
			}
		}
		add = append(add, entry{tag: TagFileStates, kind: TypeChar, count: n, data: states})
	}
	h, err := f.Header.with(add)
	if err != nil {
		return nil, fmt.Errorf("rpm %s: record of the installation: %w", f.name(), err)
	}
	return h, nil
}

// with returns the header with entries added behind the immutable region, as rpm does when it
// installs a package: the bytes of the region do not change, and the entries behind it are sorted
// by their tags. An entry replaces one with the same tag; if that one is inside the region, its
// value stays there without effect. For a header without a region, everything is encoded again.
func (h *Header) with(entries []entry) (*Header, error) {
	behind := map[Tag]entry{}
	for i := h.regionIndex; i < h.count(); i++ {
		tag, _, _, _ := h.index(i)
		behind[tag] = h.entries[h.byTag[tag]]
	}
	for _, e := range entries {
		behind[e.tag] = e
	}
	sorted := slices.SortedFunc(
		maps.Values(behind),
		func(a, b entry) int { return cmp.Compare(a.tag, b.tag) },
	)
	index := []byte{}
	store := []byte{}
	if h.regionIndex > 0 {
		index = append(index, h.blob[introSize:introSize+h.regionIndex*indexSize]...)
		store = append(store, h.store()[:h.regionData]...)
	}
	for _, e := range sorted {
		for len(store)%alignment(e.kind) != 0 {
			store = append(store, 0)
		}
		for _, word := range []uint32{uint32(e.tag), uint32(e.kind), uint32(len(store)), uint32(e.count)} {
			index = binary.BigEndian.AppendUint32(index, word)
		}
		store = append(store, e.data...)
	}
	blob := make([]byte, 0, introSize+len(index)+len(store))
	blob = binary.BigEndian.AppendUint32(blob, uint32(len(index)/indexSize))
	blob = binary.BigEndian.AppendUint32(blob, uint32(len(store)))
	return ParseHeader(append(append(blob, index...), store...))
}

func (h *Header) count() int { return int(binary.BigEndian.Uint32(h.blob)) }
