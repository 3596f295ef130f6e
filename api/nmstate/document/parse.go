// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"errors"
	"fmt"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/quote"
)

// Parse reads a state document in YAML or JSON. It refuses fields that the engine does not know,
// and values of a wrong kind: all at once, with their paths. Values that nmstate takes in several
// forms have one form afterwards.
func Parse(text []byte) (*State, error) {
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("read the state document: %w", quote.Error(err))
	}
	return ParseJSON(data)
}

// ParseJSON is Parse for JSON.
func ParseJSON(data []byte) (*State, error) {
	var tree any
	twice, err := kjson.UnmarshalStrict(data, &tree)
	if err != nil {
		return nil, fmt.Errorf("read the state document: %w", quote.Error(err))
	}
	var state State
	if err := errors.Join(append(bounded(twice), state.read(tree))...); err != nil {
		return nil, fmt.Errorf("state document: %w", err)
	}
	if err := checkTexts(&state); err != nil {
		return nil, fmt.Errorf("state document: %w", err)
	}
	state.withoutReadOnly()
	return &state, nil
}

// bounded are errors of fields that are there twice, with their paths.
func bounded(twice []error) []error {
	list := make([]error, len(twice))
	for n, err := range twice {
		list[n] = quote.Error(err)
	}
	return list
}

// otherType is the reason for a refused section of another type of interfaces.
const otherType = "interfaces of this type are not supported; make them with the tools of the node"

// unsupported are fields of nmstate that the engine refuses, with the remedies.
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
	"ports-config":          "settings of single ports of a bond are not supported; use port",
	"allow-extra-address":   "addresses are as the document has them; remove allow-extra-address",
	"addr-gen-mode":         "addr-gen-mode is not supported",
	"auto-table-id":         "the field's name is auto-route-table-id",
	"driver":                "the driver of a device can't be chosen; remove driver",
	"registration-protocol": "the registration protocol of a VLAN is not supported",
	"reorder-headers":       "reorder-headers is not supported",
	"loose-binding":         "loose-binding is not supported",
	"mac-vtap":              otherType,
	"hsr":                   otherType,
	"macsec":                otherType,
	"infiniband":            otherType,
	"libreswan":             otherType,
	"xfrm":                  otherType,
	"ip-tunnel":             otherType,
	"weight":                "routes with several next hops are not supported",
	"cwnd":                  "cwnd of a route is not supported",
}

// Format writes a state document as YAML.
func (s *State) Format() ([]byte, error) { return yaml.Marshal(s) }
