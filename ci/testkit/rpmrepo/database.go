package rpmrepo

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// convert replaces the database in a root, which is in SQLite's format, by one in the system's own format. It
// writes no indexes: rpm makes them.
func convert(ctx context.Context, sys system, root string) error {
	if sys.database == sqlite {
		return nil
	}
	dir := filepath.Join(root, sys.dbPath)
	headers, err := blobs(ctx, filepath.Join(dir, "rpmdb.sqlite"))
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "rpmdb.sqlite*"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	if sys.database == ndb {
		return os.WriteFile(filepath.Join(dir, "Packages.db"), ndbOf(headers), 0o644)
	}
	return writeBDB(ctx, headers, filepath.Join(dir, "Packages"))
}

// record is an installed package: its number and its header.
type record struct {
	number uint32
	blob   []byte
}

// blobs reads the headers of the installed packages out of a database in SQLite's format.
func blobs(ctx context.Context, file string) ([]record, error) {
	out, err := Run(ctx, "", "sqlite3", file, "select hnum, hex(blob) from Packages order by hnum")
	if err != nil {
		return nil, err
	}
	var all []record
	for line := range strings.Lines(out) {
		number, text, _ := strings.Cut(strings.TrimSpace(line), "|")
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("sqlite3 printed a line that begins with %.20q", line)
		}
		blob, err := hex.DecodeString(text)
		if err != nil {
			return nil, err
		}
		all = append(all, record{uint32(n), blob})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no packages", file)
	}
	return all, nil
}

// writeBDB makes the file Packages of el5 to el8 with Berkeley DB's own program: a hash from a package's
// number, in the processor's byte order, to its header. Number 0 holds the highest number in use.
func writeBDB(ctx context.Context, headers []record, file string) error {
	var dump strings.Builder
	dump.WriteString("VERSION=3\nformat=bytevalue\ntype=hash\ndb_pagesize=4096\nHEADER=END\n")
	number := func(n uint32) string { return hex.EncodeToString(binary.LittleEndian.AppendUint32(nil, n)) }
	var last uint32
	for _, r := range headers {
		fmt.Fprintf(&dump, " %s\n %s\n", number(r.number), hex.EncodeToString(r.blob))
		last = max(last, r.number)
	}
	fmt.Fprintf(&dump, " %s\n %s\nDATA=END\n", number(0), number(last))
	text := file + ".dump"
	if err := os.WriteFile(text, []byte(dump.String()), 0o644); err != nil {
		return err
	}
	if _, err := Run(ctx, "", "db5.3_load", "-f", text, file); err != nil {
		return fmt.Errorf("write the database of packages: %w", err)
	}
	return os.Remove(text)
}

// ndbOf returns the file Packages.db of SUSE (rpm's lib/backend/ndb/rpmpkg.c): pages of slots with the
// position of a package's blob, in blocks of 16 bytes; then blobs with a head, padding and a checksum.
func ndbOf(headers []record) []byte {
	const block, page, headerSlots, head, tail = 16, 4096, 2, 16, 12
	le := binary.LittleEndian
	pages := (len(headers)+headerSlots)*block/page + 1
	slots, data := make([]byte, 0, pages*page), []byte{}
	var last uint32
	for _, r := range headers {
		blocks := (head + len(r.blob) + tail + block - 1) / block
		for _, v := range []uint32{word("Slot"), r.number, uint32((pages*page + len(data)) / block), uint32(blocks)} {
			slots = le.AppendUint32(slots, v)
		}
		var b bytes.Buffer
		b.Write(le.AppendUint32(le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, word("BlbS")), r.number), 1), uint32(len(r.blob))))
		b.Write(r.blob)
		b.Write(make([]byte, blocks*block-head-len(r.blob)-tail))
		sum := adler32.Checksum(b.Bytes())
		b.Write(le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, sum), uint32(len(r.blob))), word("BlbE")))
		data = append(data, b.Bytes()...)
		last = max(last, r.number)
	}
	var file []byte
	for _, v := range []uint32{word("RpmP"), 0, 1, uint32(pages), last + 1, 0, 0, 0} {
		file = le.AppendUint32(file, v)
	}
	file = append(file, slots...)
	for len(file) < pages*page { // empty slots have only their name
		file = le.AppendUint32(file, word("Slot"))
		file = append(file, make([]byte, block-4)...)
	}
	return append(file, data...)
}

// word returns a name of four letters as a number.
func word(name string) uint32 { return binary.LittleEndian.Uint32([]byte(name)) }
