// Package documents makes and reads what belongs to an image and is attached to it: the bill of
// materials, which says what is in it and where each part came from; the provenance, which says how
// it was built and holds its recipe; statements about vulnerabilities (VEX).
//
// It does not sign documents and does not attach them: package attestation does. It knows no
// vulnerability.
package documents
