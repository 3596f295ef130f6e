// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package annotations reads and writes the annotations of pods and of
// NetworkAttachmentDefinitions that Alioth understands. It reads texts of users strictly: it
// refuses a misspelled key or value, with an error that contains the right form. Other packages
// decide whether a network exists, and whether the pod may use it.
package annotations

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// NIC is a tenant's request in the annotation arktos.futurewei.com/nic. The zero value
// requests nothing in particular.
type NIC struct {
	// Name is the requested interface name; "" for the runtime's own.
	Name string
	// requested IPs, at most one per family, in the order written.
	IPs []netip.Addr
	// Subnet requested, by object name or spec.name; "" for any.
	Subnet string
}

type nicJSON struct {
	Name   *string `json:"name"`
	IP     *string `json:"ip"`
	Subnet *string `json:"subnet"`
}

const nicExample = `{"name": "eth0", "ip": "10.10.1.12", "subnet": "net1"}`

// ParseNIC reads the nic annotation. An empty text requests nothing. Unknown
// keys, a wrong type, more than one IP of a family, a zone, or text behind the
// object are errors.
func ParseNIC(text string) (NIC, error) {
	if strings.TrimSpace(text) == "" {
		return NIC{}, nil
	}
	var raw nicJSON
	if err := decodeStrict(text, &raw); err != nil {
		return NIC{}, wanted("JSON object", nicExample, err)
	}
	nic := NIC{Name: value(raw.Name), Subnet: value(raw.Subnet)}
	if nic.Name != "" && !interfaceName.MatchString(nic.Name) {
		return NIC{}, fmt.Errorf(
			"name %s is no interface name: 1 to 15 letters, digits, '_', '.' or '-'",
			quote.Text(nic.Name),
		)
	}
	if nic.Subnet != "" && !isObjectName(nic.Subnet) {
		return NIC{}, fmt.Errorf("subnet %s is no object name", quote.Text(nic.Subnet))
	}
	ips, err := parseIPs(value(raw.IP))
	if err != nil {
		return NIC{}, err
	}
	nic.IPs = ips
	return nic, nil
}

func parseIPs(text string) ([]netip.Addr, error) {
	if text == "" {
		return nil, nil
	}
	var ips []netip.Addr
	for part := range strings.SplitSeq(text, ",") {
		ip, ok := plainAddr(strings.TrimSpace(part))
		if !ok {
			return nil, fmt.Errorf("ip %s is no IPv4 or IPv6 address", quote.Text(part))
		}
		for _, other := range ips {
			if other.Is4() == ip.Is4() {
				return nil, fmt.Errorf("ip %s has more than one address of a family", quote.Text(text))
			}
		}
		ips = append(ips, ip)
	}
	return ips, nil
}

// UserInput is the annotation mizar.futurewei.com/network_user_input: the address of a
// pod, in the terms of the Arktos integration.
type UserInput struct {
	// VPC is the name of the VPC object.
	VPC string `json:"vpc"`
	// Net is the subnet's name as a user would write it in nic.subnet.
	Net string `json:"net"`
	// IP is one address of the pod: the IPv4 one if it has one.
	IP string `json:"ip"`
}

// FormatUserInput returns the annotation's text, with a space behind each
// colon and comma as the Arktos document shows it.
func FormatUserInput(in UserInput) string {
	return fmt.Sprintf(`{"vpc": %s, "net": %s, "ip": %s}`, encode(in.VPC), encode(in.Net), encode(in.IP))
}

func encode(s string) string {
	text, err := json.Marshal(s)
	if err != nil { // a string always marshals
		panic(err)
	}
	return string(text)
}
