// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package annotations reads and writes the JSON that Alioth keeps in pod
// annotations. Reading is strict: a misspelled key or value is refused with an error
// that contains the right form.
package annotations

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"strings"

	kjson "sigs.k8s.io/json"
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

var (
	interfaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$`)
	subnetName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
)

// ParseNIC reads the nic annotation. An empty text requests nothing. Unknown
// keys, a wrong type, more than one IP of a family, a zone, or text behind the
// object are errors.
func ParseNIC(text string) (NIC, error) {
	if strings.TrimSpace(text) == "" {
		return NIC{}, nil
	}
	var raw nicJSON
	if err := decodeStrict(text, &raw); err != nil {
		return NIC{}, fmt.Errorf("want a JSON object such as %s: %w", nicExample, err)
	}
	nic := NIC{Name: value(raw.Name), Subnet: value(raw.Subnet)}
	if nic.Name != "" && !interfaceName.MatchString(nic.Name) {
		return NIC{}, fmt.Errorf("name %q is no interface name: 1 to 15 letters, digits, '_', '.' or '-'", nic.Name)
	}
	if nic.Subnet != "" && !subnetName.MatchString(nic.Subnet) {
		return NIC{}, fmt.Errorf("subnet %q is no object name", nic.Subnet)
	}
	ips, err := parseIPs(value(raw.IP))
	if err != nil {
		return NIC{}, err
	}
	nic.IPs = ips
	return nic, nil
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func parseIPs(text string) ([]netip.Addr, error) {
	if text == "" {
		return nil, nil
	}
	var ips []netip.Addr
	for part := range strings.SplitSeq(text, ",") {
		ip, err := netip.ParseAddr(strings.TrimSpace(part))
		if err != nil || ip.Zone() != "" || ip.Is4In6() {
			return nil, fmt.Errorf("ip %q is no IPv4 or IPv6 address", part)
		}
		for _, other := range ips {
			if other.Is4() == ip.Is4() {
				return nil, fmt.Errorf("ip %q has more than one address of a family", text)
			}
		}
		ips = append(ips, ip)
	}
	return ips, nil
}

// decodeStrict decodes one JSON object. Unknown keys, keys in another case and
// keys written twice are errors, as the API server's own strict decoding has
// them, and so is anything behind the object.
func decodeStrict(text string, into any) error {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return errors.New("it does not start with '{'")
	}
	strict, err := kjson.UnmarshalStrict([]byte(text), into)
	return errors.Join(append(strict, err)...)
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
	return fmt.Sprintf(`{"vpc": %s, "net": %s, "ip": %s}`, quote(in.VPC), quote(in.Net), quote(in.IP))
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil { // a string always marshals
		panic(err)
	}
	return string(text)
}

// KindPair is the kind of an attachment by a pair of devices. The node chooses the type
// of the devices.
const KindPair = "veth"

// Attachment is one interface of one pod, as the annotation
// alioth.dev/attachments lists it.
type Attachment struct {
	// Name of the interface in the pod, for example eth0.
	Name string `json:"name"`
	// AltName is a second name of the interface, requested by nic.name.
	AltName string `json:"altName,omitempty"`
	// Kind names the driver on the node, for example KindPair.
	Kind string `json:"kind"`
	// Network is namespace/name of the Network; "" where the pod uses the
	// default VPC directly.
	Network string `json:"network,omitempty"`
	// VPC is the name of the VPC object; "" outside of every VPC.
	VPC string `json:"vpc"`
	// Outside names the network outside of every VPC to which the interface leads.
	// Subnet and MAC are "" then, and Addresses have no Address objects.
	Outside string `json:"outside,omitempty"`
	// Subnet is the name of the Subnet object.
	Subnet string `json:"subnet"`
	// Addresses, at most one per family, IPv4 first, with the subnet's prefix
	// length.
	Addresses []netip.Prefix `json:"addresses"`
	// Gateways, one per family of Addresses.
	Gateways []netip.Addr `json:"gateways,omitempty"`
	// MAC of the interface, lower case with colons.
	MAC string `json:"mac"`
}

// FormatAttachments returns the text of the annotation alioth.dev/attachments.
func FormatAttachments(list []Attachment) (string, error) {
	text, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("encode attachments: %w", err)
	}
	return string(text), nil
}

// ParseAttachments reads the annotation alioth.dev/attachments. Unknown keys
// are accepted, because a newer operator may write them.
func ParseAttachments(text string) ([]Attachment, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	var list []Attachment
	if err := decoder.Decode(&list); err != nil {
		return nil, fmt.Errorf("decode attachments: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode attachments: there is text behind the list")
	}
	return list, nil
}
