package trust_test

// probes are values to try first, for fields of which another value can't be guessed.
var probes = map[string][]any{
	"Service spec.ports[*]":                                {[]any{}},
	"PodNetworkInstance status.status":                     {"IPExhausted", "InternalError", "Failed", "Unready"},
	"AttachmentClaim status.released":                      {true},
	"NodeNetworkConfigurationEnactment status.policy.kind": {"NodeNetConfPolicy"},
}

// alike are fields that have to have the same value.
var alike = map[string]string{"Pod status.podIPs[*].ip": "status.podIP"}
