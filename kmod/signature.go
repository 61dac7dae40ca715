package kmod

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// A signed module ends with: signature, 12 bytes that describe it, and this line (kernel: scripts/sign-file.c).
//
//	{algo, hash, id_type, signer_len, key_id_len, 3 unused, sig_len uint32 big endian}
const (
	sigMagic    = "~Module signature appended~\n"
	sigTrailer  = 12
	sigX509     = 1 // kernels before 4.3: names in clear text before the signature, hash in the trailer
	sigPKCS7    = 2
	maxSigBytes = 1 << 20
)

// oldHashes are the numbers that kernels before 4.3 use in the trailer.
var oldHashes = []string{"md4", "md5", "sha1", "rmd160", "sha256", "sha384", "sha512", "sha224"}

// hashes by object identifier.
var hashes = map[string]string{
	"1.2.840.113549.2.5": "md5", "1.3.14.3.2.26": "sha1", "2.16.840.1.101.3.4.2.4": "sha224",
	"2.16.840.1.101.3.4.2.1": "sha256", "2.16.840.1.101.3.4.2.2": "sha384", "2.16.840.1.101.3.4.2.3": "sha512",
	"2.16.840.1.101.3.4.2.8": "sha3-256", "2.16.840.1.101.3.4.2.9": "sha3-384", "2.16.840.1.101.3.4.2.10": "sha3-512",
}

type signature struct {
	present             bool
	signer, hash, keyID string
}

// readSignature says what the appended signature claims. A damaged one is present with nothing more to say: the kernel will
// refuse it, and says so better. An error is one of reading.
func readSignature(data io.ReaderAt, size int64) (signature, error) {
	end := make([]byte, sigTrailer+len(sigMagic))
	if size < int64(len(end)) {
		return signature{}, nil
	}
	if _, err := io.ReadFull(io.NewSectionReader(data, size-int64(len(end)), int64(len(end))), end); err != nil {
		return signature{}, fmt.Errorf("read the end of the file: %w", err)
	}
	if !bytes.HasSuffix(end, []byte(sigMagic)) {
		return signature{}, nil
	}
	sig := signature{present: true}
	names := int64(end[3]) + int64(end[4]) // the old format's signer and key id stand before the signature
	length := int64(binary.BigEndian.Uint32(end[8:]))
	if length > maxSigBytes || length+names > size-int64(len(end)) {
		return sig, nil
	}
	raw := make([]byte, names+length)
	if _, err := io.ReadFull(io.NewSectionReader(data, size-int64(len(end))-int64(len(raw)), int64(len(raw))), raw); err != nil {
		return signature{}, fmt.Errorf("read the signature: %w", err)
	}
	switch end[2] {
	case sigPKCS7:
		sig.signer, sig.keyID, sig.hash = parsePKCS7(raw[names:])
	case sigX509:
		sig.signer, sig.keyID = string(raw[:end[3]]), colons(raw[end[3]:names])
		if int(end[1]) < len(oldHashes) {
			sig.hash = oldHashes[end[1]]
		}
	}
	return sig, nil
}

// parsePKCS7 reads the first SignerInfo of a SignedData (RFC 2315); everything is "" where it is not one.
func parsePKCS7(der []byte) (signer, keyID, hash string) {
	in := cryptobyte.String(der)
	var content, wrapped, data, infos, info, sid, algorithm cryptobyte.String
	var oid cryptobyte.String
	if !in.ReadASN1(&content, asn1.SEQUENCE) || !content.ReadASN1(&oid, asn1.OBJECT_IDENTIFIER) ||
		!content.ReadASN1(&wrapped, asn1.Tag(0).ContextSpecific().Constructed()) || !wrapped.ReadASN1(&data, asn1.SEQUENCE) ||
		!data.SkipASN1(asn1.INTEGER) || !data.SkipASN1(asn1.SET) || !data.SkipASN1(asn1.SEQUENCE) ||
		!data.SkipOptionalASN1(asn1.Tag(0).ContextSpecific().Constructed()) || // certificates
		!data.SkipOptionalASN1(asn1.Tag(1).ContextSpecific().Constructed()) || // revocations
		!data.ReadASN1(&infos, asn1.SET) || !infos.ReadASN1(&info, asn1.SEQUENCE) || !info.SkipASN1(asn1.INTEGER) {
		return "", "", ""
	}
	if info.PeekASN1Tag(asn1.SEQUENCE) { // by issuer and serial number
		var name, serial cryptobyte.String
		if !info.ReadASN1(&sid, asn1.SEQUENCE) || !sid.ReadASN1(&name, asn1.SEQUENCE) || !sid.ReadASN1(&serial, asn1.INTEGER) {
			return "", "", ""
		}
		signer, keyID = commonName(name), colons(serial)
	} else { // by subject key identifier
		if !info.ReadASN1(&sid, asn1.Tag(0).ContextSpecific()) {
			return "", "", ""
		}
		keyID = colons(sid)
	}
	if !info.ReadASN1(&algorithm, asn1.SEQUENCE) || !algorithm.ReadASN1(&oid, asn1.OBJECT_IDENTIFIER) {
		return "", "", ""
	}
	if hash = hashes[dotted(oid)]; hash == "" {
		hash = dotted(oid)
	}
	return signer, keyID, hash
}

// commonName takes the CN of a distinguished name, else its organisation, else its first text of any kind.
func commonName(name cryptobyte.String) string {
	const cn, organisation = "2.5.4.3", "2.5.4.10"
	found := map[string]string{}
	first := ""
	for !name.Empty() {
		var set, pair, oid, value cryptobyte.String
		var tag asn1.Tag
		if !name.ReadASN1(&set, asn1.SET) || !set.ReadASN1(&pair, asn1.SEQUENCE) ||
			!pair.ReadASN1(&oid, asn1.OBJECT_IDENTIFIER) || !pair.ReadAnyASN1(&value, &tag) {
			break
		}
		text := printable(string(value))
		if found[dotted(oid)] == "" {
			found[dotted(oid)] = text
		}
		first = or(first, text)
	}
	return or(found[cn], or(found[organisation], first))
}

// dotted writes the bytes of an object identifier as text; "" when they are none.
func dotted(oid []byte) string {
	var b strings.Builder
	var n uint64
	for i, c := range oid {
		if n > 1<<50 {
			return ""
		}
		n = n<<7 | uint64(c&0x7f)
		switch {
		case c&0x80 != 0:
			if i == len(oid)-1 {
				return ""
			}
			continue
		case b.Len() == 0: // the first number holds two
			top := min(n/40, 2)
			b.WriteString(strconv.FormatUint(top, 10) + "." + strconv.FormatUint(n-40*top, 10))
		default:
			b.WriteString("." + strconv.FormatUint(n, 10))
		}
		n = 0
	}
	return b.String()
}

// colons writes bytes as modinfo does: 4A:0F:11.
func colons(b []byte) string {
	const digits = "0123456789ABCDEF"
	out := make([]byte, 0, 3*len(b))
	for i, c := range b {
		if i > 0 {
			out = append(out, ':')
		}
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}

// printable replaces what would garble a log line or a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\ufffd' {
			return '?'
		}
		return r
	}, s)
}
