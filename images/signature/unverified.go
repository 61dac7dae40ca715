package signature

// Unverified returns the attestations of a subject that name it, without a look at who signed them: anyone
// who may push to the repository can add one. It is for those who say so to the user. Keys of the findings
// are empty. Its error means that something could not be read; a document that cannot be used has its own.
func Unverified(s Subject) ([]Finding, error) {
	all, err := collect(s)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, e := range all {
		if e.storage == sigTag {
			continue
		}
		f := Finding{Where: e.where}
		if e.err != nil {
			f.Err = malformed(e.err)
		} else {
			f.readStatement(e.payload, s.Descriptor.Digest)
		}
		if f.Predicate.Type != signPredicate {
			found = append(found, f)
		}
	}
	return found, nil
}
