package kubernetes

// otherAuthority has issued no certificate here. It was made with openssl req -x509; its key is gone.
const otherAuthority = `-----BEGIN CERTIFICATE-----
MIIBjzCCATWgAwIBAgIUdcLmP3NlLFhWpPwXpbHYJ9hcCd4wCgYIKoZIzj0EAwIw
HDEaMBgGA1UEAwwRYW5vdGhlciBhdXRob3JpdHkwIBcNMjYxMTIxMTEyMDM4WhgP
MjEyNjEwMjgxMTIwMzhaMBwxGjAYBgNVBAMMEWFub3RoZXIgYXV0aG9yaXR5MFkw
EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE0kjW5yA4ZxD9zVgoi4JTDUPbjqhT+dlp
VEgCI4opW7idnQDBGFYCglf0WIh/daliVUXxDAA5Qj+9y6z/vkufoaNTMFEwHQYD
VR0OBBYEFEQkpySA1QShuXQyx/l+nC1cboJsMB8GA1UdIwQYMBaAFEQkpySA1QSh
uXQyx/l+nC1cboJsMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIh
ANw8mAZWIscDNhE0nMZ1Oq7aGoYtejH3jnaKVMP5T+WrAiBZh1LXvd2FFLh+Ols3
IpMGK6lqsfgdIZZPbVHJWx3Zlg==
-----END CERTIFICATE-----
`
