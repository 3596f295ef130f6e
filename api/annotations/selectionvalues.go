// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/quote"
)

// PortMapping leads from a port of the node to a port of the pod. Its JSON form equals the
// form of the CNI capability portMappings.
type PortMapping struct {
	// HostPort and ContainerPort are 1 to 65535.
	HostPort      int `json:"hostPort"`
	ContainerPort int `json:"containerPort"`
	// Protocol is tcp, udp or sctp.
	Protocol string `json:"protocol"`
	// HostIP is the address of the node; the zero value for each of them.
	HostIP netip.Addr `json:"hostIP,omitzero"`
}

// Bandwidth limits the traffic to and from a pod. Its JSON form equals the form of the CNI
// capability bandwidth. A rate of 0 sets no limit; a burst has a rate with it.
type Bandwidth struct {
	// IngressRate and EgressRate in bits per second.
	IngressRate int64 `json:"ingressRate,omitempty"`
	EgressRate  int64 `json:"egressRate,omitempty"`
	// IngressBurst and EgressBurst in bits.
	IngressBurst int64 `json:"ingressBurst,omitempty"`
	EgressBurst  int64 `json:"egressBurst,omitempty"`
}

type portJSON struct {
	HostPort      int     `json:"hostPort"`
	ContainerPort int     `json:"containerPort"`
	Protocol      *string `json:"protocol"`
	HostIP        *string `json:"hostIP"`
}

type bandwidthJSON struct {
	IngressRate  *int64 `json:"ingressRate"`
	IngressBurst *int64 `json:"ingressBurst"`
	EgressRate   *int64 `json:"egressRate"`
	EgressBurst  *int64 `json:"egressBurst"`
}

// deviceID is a PCI address or the name of another device. It has no slash, because
// files are named after it.
var deviceID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$`)

func (j selectionJSON) read() (NetworkSelection, error) {
	if given(j.IPAMClaim) {
		return NetworkSelection{}, errors.New(
			`"ipam-claim-reference" is not supported: remove it; addresses stay with the pod`,
		)
	}
	one := NetworkSelection{Namespace: value(j.Namespace), Name: value(j.Name), DeviceID: value(j.DeviceID)}
	if given(j.Gateway) {
		one.Foreign = append(one.Foreign, "gateway")
	}
	err := checkReference(one)
	for _, step := range []func(*NetworkSelection) error{
		j.readInterface, j.readIPs, j.readMAC, j.readGUID, j.readArgs, j.readPorts, j.readBandwidth, j.readDefaultRoute,
	} {
		if err == nil {
			err = step(&one)
		}
	}
	if err == nil && one.DeviceID != "" && !deviceID.MatchString(one.DeviceID) {
		err = fmt.Errorf("deviceID %s is no device: write a PCI address such as 0000:af:06.0", quote.Text(one.DeviceID))
	}
	if err != nil {
		return NetworkSelection{}, err
	}
	return one, nil
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// checkReference accepts a namespace that is missing.
func checkReference(one NetworkSelection) error {
	if !isObjectName(one.Name) {
		return fmt.Errorf(
			`name %s is no name of a NetworkAttachmentDefinition; its namespace is written namespace/name in a list of names, and as "namespace" in JSON`,
			quote.Text(one.Name),
		)
	}
	if one.Namespace != "" && !labelName.MatchString(one.Namespace) {
		return fmt.Errorf("namespace %s is no name of a namespace", quote.Text(one.Namespace))
	}
	return nil
}

func (j selectionJSON) readInterface(one *NetworkSelection) error {
	name, alias := value(j.Interface), value(j.IfaceAlias)
	if name != "" && alias != "" && name != alias {
		return fmt.Errorf(
			`"interface" %s and its old form "interfaceRequest" %s differ: keep the first`,
			quote.Text(name),
			quote.Text(alias),
		)
	}
	if one.Interface = cmp.Or(name, alias); one.Interface == "" {
		return nil
	}
	return checkInterfaceName(one.Interface)
}

func (j selectionJSON) readIPs(one *NetworkSelection) error {
	if j.IPs != nil && len(*j.IPs) == 0 {
		return errors.New(`"ips" is empty: remove it, or list an address`)
	}
	seen := map[netip.Addr]bool{}
	for _, text := range value(j.IPs) {
		ip, bits, err := interfaceAddr(text)
		if err != nil {
			return fmt.Errorf("ips: %w", err)
		}
		if seen[ip] {
			return fmt.Errorf("ips: %s is listed twice", ip)
		}
		seen[ip] = true
		one.IPs = append(one.IPs, RequestedIP{IP: ip, Bits: bits})
	}
	return nil
}

// readMAC refuses addresses that the kernel refuses for an interface: group addresses, and the
// address of zeros (IEEE 802).
func (j selectionJSON) readMAC(one *NetworkSelection) error {
	text := value(j.MAC)
	if text == "" {
		return nil
	}
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 || bytes.Equal(mac, make([]byte, 6)) {
		return fmt.Errorf(
			"mac %s is no MAC of an interface: 6 bytes such as 02:23:45:67:89:01, no group address",
			quote.Text(text),
		)
	}
	one.MAC = mac.String()
	return nil
}

// readGUID accepts the name of the capability as a second name of the key.
func (j selectionJSON) readGUID(one *NetworkSelection) error {
	text, alias := value(j.GUID), value(j.GUIDAlias)
	if text != "" && alias != "" && text != alias {
		return fmt.Errorf(
			`"infiniband-guid" %s and "infinibandGUID" %s differ: keep the first`,
			quote.Text(text),
			quote.Text(alias),
		)
	}
	if text = cmp.Or(text, alias); text == "" {
		return nil
	}
	guid, err := net.ParseMAC(text)
	if err != nil || len(guid) != 8 || bytes.Equal(guid, make([]byte, 8)) {
		return fmt.Errorf("infiniband-guid %s is no GUID: 8 bytes such as c2:11:22:33:44:55:66:77", quote.Text(text))
	}
	one.GUID = guid.String()
	return nil
}

// readArgs refuses keys written twice at any depth, because two readers could read
// different values.
func (j selectionJSON) readArgs(one *NetworkSelection) error {
	if !given(j.CNIArgs) {
		return nil
	}
	var args map[string]any
	if err := decodePart(string(j.CNIArgs), &args); err != nil {
		return fmt.Errorf("cni-args: %w", err)
	}
	if len(args) == 0 {
		return nil
	}
	var text bytes.Buffer
	if err := json.Compact(&text, j.CNIArgs); err != nil {
		return fmt.Errorf("cni-args: %w", quote.Error(err))
	}
	one.CNIArgs = text.Bytes()
	return nil
}

func (j selectionJSON) readPorts(one *NetworkSelection) error {
	for i, raw := range j.PortMappings {
		if raw == nil {
			return fmt.Errorf("portMappings: element %d is null: remove it", i)
		}
		port, err := raw.read()
		if err != nil {
			return fmt.Errorf("portMappings: element %d: %w", i, err)
		}
		if slices.ContainsFunc(one.PortMappings, port.conflicts) {
			return fmt.Errorf("portMappings: hostPort %d/%s is listed twice", port.HostPort, port.Protocol)
		}
		one.PortMappings = append(one.PortMappings, port)
	}
	return nil
}

func (j portJSON) read() (PortMapping, error) {
	port := PortMapping{
		HostPort:      j.HostPort,
		ContainerPort: j.ContainerPort,
		Protocol:      strings.ToLower(cmp.Or(value(j.Protocol), "tcp")),
	}
	if min(port.HostPort, port.ContainerPort) < 1 || max(port.HostPort, port.ContainerPort) > 65535 {
		return PortMapping{}, fmt.Errorf(
			"hostPort %d and containerPort %d have to be 1 to 65535",
			port.HostPort,
			port.ContainerPort,
		)
	}
	if !slices.Contains([]string{"tcp", "udp", "sctp"}, port.Protocol) {
		return PortMapping{}, fmt.Errorf("protocol %s is none of TCP, UDP and SCTP", quote.Text(value(j.Protocol)))
	}
	if text := value(j.HostIP); text != "" {
		ip, ok := plainAddr(text)
		if !ok {
			return PortMapping{}, fmt.Errorf("hostIP %s is no IPv4 or IPv6 address", quote.Text(text))
		}
		port.HostIP = ip
	}
	return port, nil
}

func (p PortMapping) conflicts(other PortMapping) bool {
	return p.HostPort == other.HostPort && p.Protocol == other.Protocol && p.HostIP == other.HostIP
}

func (j selectionJSON) readBandwidth(one *NetworkSelection) error {
	if j.Bandwidth == nil {
		return nil
	}
	raw := *j.Bandwidth
	for _, number := range []*int64{raw.IngressRate, raw.IngressBurst, raw.EgressRate, raw.EgressBurst} {
		if number != nil && *number < 1 {
			return fmt.Errorf("bandwidth: %d is no rate or burst: write a number above 0, or leave the key out", *number)
		}
	}
	if raw.IngressRate == nil && raw.IngressBurst != nil || raw.EgressRate == nil && raw.EgressBurst != nil {
		return errors.New("bandwidth: a burst needs the rate of its direction")
	}
	one.Bandwidth = Bandwidth{
		IngressRate: value(raw.IngressRate), IngressBurst: value(raw.IngressBurst),
		EgressRate: value(raw.EgressRate), EgressBurst: value(raw.EgressBurst),
	}
	if one.Bandwidth == (Bandwidth{}) {
		return errors.New("bandwidth: it has no rate: remove it, or write one")
	}
	return nil
}

func (j selectionJSON) readDefaultRoute(one *NetworkSelection) error {
	one.DefaultRoute = j.DefaultRoute != nil
	for _, text := range value(j.DefaultRoute) {
		ip, ok := unicastAddr(text)
		if !ok {
			return fmt.Errorf("default-route: %s is no IPv4 or IPv6 address of a gateway", quote.Text(text))
		}
		if slices.ContainsFunc(one.Gateways, func(other netip.Addr) bool { return other.Is4() == ip.Is4() }) {
			return fmt.Errorf("default-route: %s is the second %s gateway: keep one", ip, ipfamily.Of(ip))
		}
		one.Gateways = append(one.Gateways, ip)
	}
	return nil
}
