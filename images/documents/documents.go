// Package documents makes and reads what belongs to an image and is attached to it: the provenance, which says how the
// image was built and holds its recipe.
//
// It does not sign documents and does not attach them: package attestation does.
package documents
