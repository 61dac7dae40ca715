package uefi

import (
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
)

// GUID is an identifier as it is stored: the first three fields are little endian.
type GUID [16]byte

// guid takes the fields of the usual text form, the last two as one number.
func guid(a uint32, b, c uint16, d uint64) GUID {
	var g GUID
	binary.LittleEndian.PutUint32(g[0:], a)
	binary.LittleEndian.PutUint16(g[4:], b)
	binary.LittleEndian.PutUint16(g[6:], c)
	binary.BigEndian.PutUint64(g[8:], d)
	return g
}

// String returns the usual text form: "8be4df61-93ca-11d2-aa0d-00e098032b8c".
func (g GUID) String() string {
	le := binary.LittleEndian
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x", le.Uint32(g[0:]), le.Uint16(g[4:]), le.Uint16(g[6:]), g[8:10], g[10:])
}

// The namespaces of the variables (UEFI 2.10, 8.2 and 32.4; shim's lib/guid.c) and the types of their values'
// entries.
var (
	Global        = guid(0x8be4df61, 0x93ca, 0x11d2, 0xaa0d00e098032b8c) // PK, KEK
	ImageSecurity = guid(0xd719b2cb, 0x3d3a, 0x4596, 0xa3bcdad00e67656f) // db, dbx
	Shim          = guid(0x605dab50, 0xe046, 0x4300, 0xabb63dd810dd8b23) // MokList, MokSBState

	x509Type = guid(0xa5c059a1, 0x94e4, 0x4aa7, 0x87b5ab155c2bf072) // EFI_CERT_X509_GUID
	owner    = guid(0x77fa9abd, 0x0359, 0x4d32, 0xbd6028f4e78f784b) // the owner of a signature: any value works
)

// Attributes of variables (UEFI 2.10, 8.2).
const (
	NonVolatile   = 0x01
	BootService   = 0x02
	Runtime       = 0x04
	Authenticated = 0x20 // time based; the store keeps a time for such a variable
)

// Variable is one variable of a store.
type Variable struct {
	Name       string
	Vendor     GUID
	Attributes uint32
	Data       []byte
}

// PK is the variable with the platform's key. With one, firmware leaves Setup Mode: Secure Boot is on.
func PK(cert *x509.Certificate) Variable { return authenticated("PK", Global, cert) }

// KEK is the variable with the keys that may change db and dbx.
func KEK(certs ...*x509.Certificate) Variable { return authenticated("KEK", Global, certs...) }

// DB is the variable with the keys whose programs firmware starts. Linux has them in its keyring .platform.
func DB(certs ...*x509.Certificate) Variable { return authenticated("db", ImageSecurity, certs...) }

// DBX is the variable with the keys whose programs firmware refuses.
func DBX(certs ...*x509.Certificate) Variable { return authenticated("dbx", ImageSecurity, certs...) }

func authenticated(name string, vendor GUID, certs ...*x509.Certificate) Variable {
	return Variable{name, vendor, NonVolatile | BootService | Runtime | Authenticated, signatureList(certs)}
}

// MokList is the variable with the machine owner's keys, as MokManager writes them. Through shim, Linux has
// them in its keyring .machine.
func MokList(certs ...*x509.Certificate) Variable {
	return Variable{"MokList", Shim, NonVolatile | BootService, signatureList(certs)}
}

// MokSBState is the variable that `mokutil --disable-validation` and MokManager leave: shim starts anything,
// and Linux assumes that Secure Boot is off.
func MokSBState() Variable { return Variable{"MokSBState", Shim, NonVolatile | BootService, []byte{1}} }

// sizes of an EFI_SIGNATURE_LIST's header, and of the owner before each signature (UEFI 2.10, 32.4.1).
const (
	listHeader = 16 + 3*4
	ownerSize  = 16
)

// signatureList makes a list for each certificate, because all signatures of one list have the same size.
func signatureList(certs []*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		size := uint32(ownerSize + len(c.Raw))
		out = append(out, x509Type[:]...)
		for _, n := range []uint32{listHeader + size, 0, size} {
			out = binary.LittleEndian.AppendUint32(out, n)
		}
		out = append(append(out, owner[:]...), c.Raw...)
	}
	return out
}

// ErrFormat says that bytes do not have the expected format. The error that wraps it names the place.
var ErrFormat = errors.New("malformed")

// Certificates returns the X.509 certificates in a value like that of db, in DER. It leaves out entries of
// other types (hashes). Errors: ErrFormat.
func Certificates(value []byte) ([][]byte, error) {
	var certs [][]byte
	for at := 0; at < len(value); {
		rest := value[at:]
		if len(rest) < listHeader {
			return nil, fmt.Errorf("signature list at %d: %w: %d bytes are left", at, ErrFormat, len(rest))
		}
		le := binary.LittleEndian
		list, header, size := uint64(le.Uint32(rest[16:])), uint64(le.Uint32(rest[20:])), uint64(le.Uint32(rest[24:]))
		begin := listHeader + header
		if list > uint64(len(rest)) || begin > list || size <= ownerSize || (list-begin)%size != 0 {
			return nil, fmt.Errorf("signature list at %d: %w: %d bytes, a header of %d, signatures of %d", at, ErrFormat, list, header, size)
		}
		if GUID(rest[:16]) == x509Type {
			for ; begin < list; begin += size {
				certs = append(certs, rest[begin+ownerSize:begin+size])
			}
		}
		at += int(list)
	}
	return certs, nil
}
