// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"errors"
	"fmt"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/said"
)

// Parse reads a state document in YAML or JSON. Fields that the engine does not know are
// errors, all at once and with their paths.
func Parse(text []byte) (*State, error) {
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("read the state document: %w", said.Error(err))
	}
	return ParseJSON(data)
}

// ParseJSON is Parse for JSON.
func ParseJSON(data []byte) (*State, error) {
	var state State
	strict, err := kjson.UnmarshalStrict(data, &state)
	if err != nil {
		return nil, fmt.Errorf("read the state document: %w", said.Error(err))
	}
	if len(strict) > 0 {
		return nil, fmt.Errorf("state document: %w", errors.Join(explained(strict)...))
	}
	if err := checkTexts(&state); err != nil {
		return nil, fmt.Errorf("state document: %w", err)
	}
	state.withoutReadOnly()
	return &state, nil
}

// unsupported are fields of nmstate that the engine refuses, and what to do instead.
var unsupported = map[string]string{
	"lldp":                  "LLDP is not supported; run an LLDP daemon on the node",
	"802.1x":                "802.1x is not supported; configure the port's authentication on the node",
	"dispatch":              "dispatch scripts are not supported",
	"ovs-db":                "Open vSwitch is not supported; use a linux-bridge",
	"ovn":                   "Open vSwitch is not supported; use a linux-bridge",
	"hostname":              "the host's name is not supported; set it with hostnamectl",
	"ethtool":               "ethtool settings are not supported",
	"mptcp":                 "MPTCP is not supported",
	"identifier":            "only the name identifies an interface; remove identifier",
	"profile-name":          "there are no profiles; remove profile-name",
	"copy-mac-from":         "copy-mac-from is not supported; set mac-address",
	"ports-config":          "settings of single ports of a bond are not supported; use port",
	"allow-extra-address":   "addresses are as the document has them; remove allow-extra-address",
	"addr-gen-mode":         "addr-gen-mode is not supported",
	"token":                 "the kernel chooses the addresses of autoconfiguration; remove token",
	"auto-table-id":         "the field's name is auto-route-table-id",
	"driver":                "the driver of a device can't be chosen; remove driver",
	"registration-protocol": "the registration protocol of a VLAN is not supported",
	"reorder-headers":       "reorder-headers is not supported",
	"loose-binding":         "loose-binding is not supported",
	"weight":                "routes with several next hops are not supported",
	"cwnd":                  "cwnd of a route is not supported",
}

// explained adds to an unknown field of nmstate why it is refused. Other strict errors
// are unknown or duplicate fields with their paths.
func explained(strict []error) []error {
	list := make([]error, len(strict))
	for i, err := range strict {
		list[i] = said.Error(err)
		field := strings.TrimSuffix(err.Error(), `"`)
		if at := strings.LastIndexAny(field, `."`); at >= 0 && strings.HasPrefix(err.Error(), "unknown field") {
			name := field[at+1:]
			if strings.HasSuffix(field, "802.1x") { // the only name with a dot
				name = "802.1x"
			}
			if why, ok := unsupported[name]; ok {
				list[i] = fmt.Errorf("%w: %s", said.Error(err), why)
			}
		}
	}
	return list
}

// Format writes a state document as YAML.
func (s *State) Format() ([]byte, error) { return yaml.Marshal(s) }
