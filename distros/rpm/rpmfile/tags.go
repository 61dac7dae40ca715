package rpmfile

// Tag is the number of an entry of a header. In a package's signature header some numbers have
// another meaning: see SigTag*.
type Tag uint32

// Type is the type of an entry's value.
type Type uint32

// Types, and what the values of an entry are.
const (
	TypeNull        Type = 0 // no rpm of this century writes it
	TypeChar        Type = 1 // bytes
	TypeInt8        Type = 2
	TypeInt16       Type = 3
	TypeInt32       Type = 4
	TypeInt64       Type = 5
	TypeString      Type = 6 // one text
	TypeBinary      Type = 7 // bytes
	TypeStringArray Type = 8
	TypeI18NString  Type = 9 // a text for each language; the first is the untranslated one
)

// Tags of package headers that this project reads or writes. The numbers are those of rpm's
// rpmtag.h.
const (
	TagHeaderImage       Tag = 61 // region of rpm 3
	TagHeaderSignatures  Tag = 62 // region of signature headers
	TagHeaderImmutable   Tag = 63 // region of package headers: the signed part
	TagI18NTable         Tag = 100
	TagSigSize           Tag = 257
	TagSigPGP            Tag = 259
	TagSigMD5            Tag = 261
	TagSigGPG            Tag = 262
	TagDSAHeader         Tag = 267
	TagRSAHeader         Tag = 268
	TagSHA1Header        Tag = 269
	TagLongSigSize       Tag = 270
	TagLongArchiveSize   Tag = 271
	TagSHA256Header      Tag = 273
	TagVeritySignatures  Tag = 276
	TagVeritySigAlgo     Tag = 277
	TagOpenPGP           Tag = 278 // base64 texts, since rpm 4.20
	TagSHA3256Header     Tag = 279
	TagName              Tag = 1000
	TagVersion           Tag = 1001
	TagRelease           Tag = 1002
	TagEpoch             Tag = 1003
	TagDescription       Tag = 1005
	TagInstallTime       Tag = 1008
	TagVendor            Tag = 1011
	TagLicense           Tag = 1014
	TagGroup             Tag = 1016
	TagArch              Tag = 1022
	TagOldFileNames      Tag = 1027
	TagFileSizes         Tag = 1028
	TagFileStates        Tag = 1029
	TagFileModes         Tag = 1030
	TagFileMTimes        Tag = 1034
	TagFileDigests       Tag = 1035
	TagFileLinkTos       Tag = 1036
	TagFileFlags         Tag = 1037
	TagFileUserName      Tag = 1039
	TagFileGroupName     Tag = 1040
	TagSourceRPM         Tag = 1044
	TagArchiveSize       Tag = 1046
	TagProvideName       Tag = 1047
	TagRequireFlags      Tag = 1048
	TagRequireName       Tag = 1049
	TagRequireVersion    Tag = 1050
	TagConflictFlags     Tag = 1053
	TagConflictName      Tag = 1054
	TagConflictVersion   Tag = 1055
	TagTriggerName       Tag = 1066
	TagObsoleteName      Tag = 1090
	TagFileDevices       Tag = 1095
	TagFileInodes        Tag = 1096
	TagSourcePackage     Tag = 1106
	TagProvideFlags      Tag = 1112
	TagProvideVersion    Tag = 1113
	TagObsoleteFlags     Tag = 1114
	TagObsoleteVersion   Tag = 1115
	TagDirIndexes        Tag = 1116
	TagBaseNames         Tag = 1117
	TagDirNames          Tag = 1118
	TagPayloadFormat     Tag = 1124
	TagPayloadCompressor Tag = 1125
	TagInstallColor      Tag = 1127
	TagInstallTID        Tag = 1128
	TagLongFileSizes     Tag = 5008
	TagFileCaps          Tag = 5010
	TagFileDigestAlgo    Tag = 5011
	TagFileSignatures    Tag = 5090
	TagFileSigLength     Tag = 5091
	TagPayloadDigest     Tag = 5092
	TagPayloadDigestAlgo Tag = 5093
)

// Tags that have this meaning only in a package's signature header.
const (
	SigTagFileSignatures Tag = 274
	SigTagFileSigLength  Tag = 275
	SigTagSize           Tag = 1000 // bytes of header and payload
	SigTagPGP            Tag = 1002 // RSA signature over header and payload
	SigTagMD5            Tag = 1004 // of header and payload
	SigTagGPG            Tag = 1005 // DSA signature over header and payload
	SigTagPayloadSize    Tag = 1007 // bytes of the payload, unpacked
)

// typeSizes are the sizes of one value in bytes, by type; 0 for types that end with a zero byte.
var typeSizes = [...]int{
	TypeChar: 1, TypeInt8: 1, TypeInt16: 2, TypeInt32: 4, TypeInt64: 8, TypeBinary: 1, TypeI18NString: 0,
}

// alignment returns the number of bytes that must divide the offset of a value.
func alignment(t Type) int { return max(1, typeSizes[t]) }
