// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// NetworksKey is the annotation of a pod that selects NetworkAttachmentDefinitions
// (NPWG multi-network specification 1.3, section 4.1).
const NetworksKey = "k8s.v1.cni.cncf.io/networks"

// DefaultNetworkKey is the annotation of a pod that selects one NetworkAttachmentDefinition
// for its first interface, in place of the default network (Multus).
const DefaultNetworkKey = "v1.multus-cni.io/default-network"

const networksExample = `net-a,other-ns/net-b@net2 or [{"name": "net-a"}, {"name": "net-b", "namespace": "other-ns", "interface": "net2"}]`

// NetworkSelection is one element of the annotation k8s.v1.cni.cncf.io/networks: a
// request for an interface in the network of a NetworkAttachmentDefinition. The request is the
// pod author's wish; nothing permits it yet.
type NetworkSelection struct {
	// Namespace and Name of the NetworkAttachmentDefinition.
	Namespace, Name string
	// Interface is the name of the interface: the requested one, or else net1 for the
	// first element, net2 for the second, and so on.
	Interface string
	// IPs requested; any number per family, none twice.
	IPs []RequestedIP
	// MAC requested, lower case with colons; "" for any.
	MAC string
	// GUID requested, an address of InfiniBand of 8 bytes, lower case with colons; "" for any.
	GUID string
	// CNIArgs is a JSON object without blanks, for the plugin's configuration; nil for
	// none.
	CNIArgs json.RawMessage
	// PortMappings requested.
	PortMappings []PortMapping
	// Bandwidth requested; the zero value without one.
	Bandwidth Bandwidth
	// DefaultRoute reports that the pod's default route leads through this interface,
	// so the default network gets none. At most one element of the list has it.
	DefaultRoute bool
	// Gateways of the default route, at most one per family; the list may be empty.
	Gateways []netip.Addr
	// DeviceID requested, for example a PCI address; "" for any. The kubelet alone
	// allocates devices: compare it with the allocation of this pod.
	DeviceID string
	// Foreign are keys that Multus accepts in manifests, and that no implementation carries
	// out: "gateway".
	Foreign []string
}

// RequestedIP is an IP that a pod requests.
type RequestedIP struct {
	IP netip.Addr
	// Bits is the prefix length, 1 to 32 or 128; 0 without one.
	Bits int
}

// String returns the IP, with its prefix length if it has one.
func (r RequestedIP) String() string {
	if r.Bits == 0 {
		return r.IP.String()
	}
	return netip.PrefixFrom(r.IP, r.Bits).String()
}

type selectionJSON struct {
	Name         *string         `json:"name"`
	Namespace    *string         `json:"namespace"`
	IPs          *[]string       `json:"ips"`
	MAC          *string         `json:"mac"`
	Interface    *string         `json:"interface"`
	IfaceAlias   *string         `json:"interfaceRequest"`
	CNIArgs      json.RawMessage `json:"cni-args"`
	PortMappings []*portJSON     `json:"portMappings"`
	Bandwidth    *bandwidthJSON  `json:"bandwidth"`
	DefaultRoute *[]string       `json:"default-route"`
	DeviceID     *string         `json:"deviceID"`
	GUID         *string         `json:"infiniband-guid"`
	GUIDAlias    *string         `json:"infinibandGUID"`
	Gateway      json.RawMessage `json:"gateway"`
	IPAMClaim    json.RawMessage `json:"ipam-claim-reference"`
}

// ParseNetworks reads the annotation k8s.v1.cni.cncf.io/networks in both of its
// formats, a list of names separated by commas and a JSON list. podNamespace is the
// namespace of elements without one. A blank text and an empty list select nothing.
//
// A malformed annotation is an error as a whole, as in Multus. The specification has
// it ignored, but then a pod would start without a network that it relies on. Keys
// without a period are reserved by the specification, so unknown ones are errors; keys
// with a period (reverse DNS) are other programs' and are ignored. Not supported, and
// refused, is ipam-claim-reference.
func ParseNetworks(text, podNamespace string) ([]NetworkSelection, error) {
	list, err := selections(text)
	if err != nil {
		return nil, wanted("list", networksExample, err)
	}
	for i := range list {
		if list[i].Namespace == "" {
			list[i].Namespace = podNamespace
		}
		if list[i].Interface == "" {
			list[i].Interface = "net" + strconv.Itoa(i+1)
		}
	}
	if err := checkTogether(list); err != nil {
		return nil, err
	}
	return list, nil
}

// ParseDefaultNetwork reads the annotation v1.multus-cni.io/default-network, in the formats
// of ParseNetworks. It selects one definition, or nothing if the text is blank.
func ParseDefaultNetwork(text, podNamespace string) (*NetworkSelection, error) {
	list, err := selections(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("want one name such as net-a or other-ns/net-a: %w", err)
	case len(list) == 0:
		return nil, nil
	case len(list) > 1:
		return nil, fmt.Errorf("it has %d elements, and a pod has one default network: keep one", len(list))
	}
	one := &list[0]
	if one.Interface != "" && one.Interface != FirstInterface {
		return nil, fmt.Errorf(
			"it names the interface %s, and the default network is always at %s: remove the name",
			quote.Text(one.Interface),
			FirstInterface,
		)
	}
	one.Interface = FirstInterface
	if one.Namespace == "" {
		one.Namespace = podNamespace
	}
	return one, nil
}

func selections(text string) ([]NetworkSelection, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, nil
	case strings.ContainsAny(text, `[{"`):
		return longSelections(text)
	}
	return shortSelections(text)
}

// shortSelections reads name, namespace/name and namespace/name@interface, separated by
// commas.
func shortSelections(text string) ([]NetworkSelection, error) {
	if err := errors.Join(checkSize(text), checkCount(strings.Count(text, ",")+1)); err != nil {
		return nil, err
	}
	var list []NetworkSelection
	for i, item := range strings.Split(text, ",") {
		one, err := shortSelection(strings.TrimSpace(item))
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		list = append(list, one)
	}
	return list, nil
}

func shortSelection(item string) (NetworkSelection, error) {
	if item == "" {
		return NetworkSelection{}, errors.New("it is empty: remove a comma")
	}
	var one NetworkSelection
	reference, name, renamed := strings.Cut(item, "@")
	if one.Interface = name; renamed {
		if err := checkInterfaceName(name); err != nil {
			return NetworkSelection{}, err
		}
	}
	one.Name = reference
	if namespace, name, qualified := strings.Cut(reference, "/"); qualified {
		if one.Namespace, one.Name = namespace, name; namespace == "" {
			return NetworkSelection{}, errors.New("the namespace in front of the slash is missing")
		}
	}
	return one, checkReference(one)
}

// longSelections reads the JSON format. Keys with a period are taken away before the
// rest is decoded strictly.
func longSelections(text string) ([]NetworkSelection, error) {
	raw, err := decodeList[map[string]json.RawMessage](text)
	if err != nil {
		return nil, err
	}
	var list []NetworkSelection
	for i, keys := range raw {
		one, err := longSelection(*keys)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		list = append(list, one)
	}
	return list, nil
}

func longSelection(keys map[string]json.RawMessage) (NetworkSelection, error) {
	for key := range keys {
		if strings.Contains(key, ".") {
			delete(keys, key)
		}
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return NetworkSelection{}, quote.Error(err)
	}
	var raw selectionJSON
	if err := decodePart(string(text), &raw); err != nil {
		return NetworkSelection{}, err
	}
	return raw.read()
}

// checkTogether refuses elements that share an interface name or the default route. eth0 is
// the name of the default network's interface.
func checkTogether(list []NetworkSelection) error {
	names := map[string]int{FirstInterface: -1}
	route := -1
	for i, one := range list {
		if first, taken := names[one.Interface]; taken {
			return fmt.Errorf(
				"element %d: the interface name %s is taken by %s: request another",
				i,
				one.Interface,
				holder(first),
			)
		}
		names[one.Interface] = i
		if !one.DefaultRoute {
			continue
		}
		if route >= 0 {
			return fmt.Errorf(`elements %d and %d both have "default-route": keep one of them`, route, i)
		}
		route = i
	}
	return nil
}

func holder(element int) string {
	if element < 0 {
		return "the pod's first interface"
	}
	return "element " + strconv.Itoa(element)
}
