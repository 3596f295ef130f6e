// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/quote"
)

// Keys of the annotation that lists a pod's interfaces: the key of DANM up to 4.3, and the
// key of its successors. Both have the same format.
const (
	InterfacesKey   = "danm.k8s.io/interfaces"
	InterfacesKeyIO = "danm.io/interfaces"
)

const interfacesExample = `[{"network": "internal", "ip": "dynamic"}, {"clusterNetwork": "external", "ip": "10.100.1.101", "ip6": "none", "proutes": {"10.10.1.0/24": "10.100.1.1"}}]`

// AddressMode selects how an interface gets its address of one family.
type AddressMode string

const (
	// AddressAbsent requests no address. For IPv6 it also disables IPv6 on the interface.
	AddressAbsent AddressMode = ""
	// AddressNone requests no address from Alioth. IPv6 stays enabled on the interface.
	AddressNone AddressMode = "none"
	// AddressDynamic requests a free address of the network's pool.
	AddressDynamic AddressMode = "dynamic"
	// AddressStatic requests one address.
	AddressStatic AddressMode = "static"
)

// AddressRequest is a request for an address of one family.
type AddressRequest struct {
	Mode AddressMode
	// IP is the zero value, except for AddressStatic.
	IP netip.Addr
}

// Interface is one element of the annotation danm.k8s.io/interfaces: a request for an
// interface of the pod (DANM user guide, "Connecting Pods to specific networks").
type Interface struct {
	Target
	IP, IP6 AddressRequest
	// Routes for the routing table of the network (proutes and proutes6), IPv4 first,
	// sorted by Dst; no two have the same Dst. Table is 0.
	Routes []netif.Route
}

type interfaceJSON struct {
	targetJSON
	IP       *string           `json:"ip"`
	IP6      *string           `json:"ip6"`
	PRoutes  map[string]string `json:"proutes"`
	PRoutes6 map[string]string `json:"proutes6"`
}

// InterfacesOf returns the text of a pod's interfaces annotation and the key that it is
// under; both are "" without one. Two keys with different texts are an error, because
// neither has precedence.
func InterfacesOf(annotations map[string]string) (text, key string, err error) {
	text, old := annotations[InterfacesKey]
	newer, io := annotations[InterfacesKeyIO]
	switch {
	case old && io && text != newer:
		return "", "", fmt.Errorf("the annotations %s and %s differ: keep one of them", InterfacesKey, InterfacesKeyIO)
	case old:
		return text, InterfacesKey, nil
	case io:
		return newer, InterfacesKeyIO, nil
	}
	return "", "", nil
}

// ParseInterfaces reads the annotation danm.k8s.io/interfaces. A blank text and an
// empty list request nothing, so the pod gets its default network. Unknown keys, keys
// in another case, keys written twice, text behind the list, and more than 64 elements
// are errors, and so is each route that can't be used. DANM ignored such routes.
func ParseInterfaces(text string) ([]Interface, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	raw, err := decodeList[interfaceJSON](text)
	if err != nil {
		return nil, wanted("JSON list", interfacesExample, err)
	}
	var list []Interface
	for i, element := range raw {
		one, err := element.read()
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		list = append(list, one)
	}
	return list, nil
}

func (j interfaceJSON) read() (Interface, error) {
	target, err := j.targetJSON.read()
	if err != nil {
		return Interface{}, err
	}
	one := Interface{Target: target}
	var errs [4]error
	one.IP, errs[0] = readAddress("ip", value(j.IP), ipfamily.IPv4)
	one.IP6, errs[1] = readAddress("ip6", value(j.IP6), ipfamily.IPv6)
	routes, err := readRoutes("proutes", j.PRoutes, ipfamily.IPv4)
	routes6, err6 := readRoutes("proutes6", j.PRoutes6, ipfamily.IPv6)
	errs[2], errs[3] = err, err6
	if one.Routes = append(routes, routes6...); len(one.Routes) > 0 && target.Kind == TargetVPC {
		return Interface{}, errors.New(`a VPC has no routing table for "proutes" and "proutes6": remove them`)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return Interface{}, err
	}
	return one, nil
}

func readAddress(key, text string, family ipfamily.Family) (AddressRequest, error) {
	switch mode := AddressMode(text); mode {
	case AddressAbsent, AddressNone, AddressDynamic:
		return AddressRequest{Mode: mode}, nil
	}
	ip, _, err := interfaceAddr(text)
	if err != nil {
		return AddressRequest{}, fmt.Errorf(`%s: %w; write "dynamic", "none" or an address`, key, err)
	}
	if !family.Has(ip) {
		return AddressRequest{}, fmt.Errorf(
			"%s: %s is no %s address: the other family has a key of its own",
			key,
			quote.Text(text),
			family,
		)
	}
	return AddressRequest{Mode: AddressStatic, IP: ip}, nil
}

// readRoutes reads all routes of a family in the order of their texts, so that errors
// have a stable order too.
func readRoutes(key string, texts map[string]string, family ipfamily.Family) ([]netif.Route, error) {
	var routes []netif.Route
	var errs []error
	seen := map[netip.Prefix]bool{}
	for _, dst := range slices.Sorted(maps.Keys(texts)) {
		route, err := readRoute(dst, texts[dst], family)
		if err == nil && seen[route.Dst] {
			err = fmt.Errorf("another entry leads to %s too", route.Dst)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s to %s: %w", key, quote.Text(dst), quote.Text(texts[dst]), err))
			continue
		}
		seen[route.Dst] = true
		routes = append(routes, route)
	}
	slices.SortFunc(routes, func(a, b netif.Route) int { return a.Dst.Compare(b.Dst) })
	return routes, errors.Join(errs...)
}

// readRoute clears bits behind the destination's length, as DANM does.
func readRoute(dst, gateway string, family ipfamily.Family) (netif.Route, error) {
	prefix, err := netip.ParsePrefix(dst)
	if err != nil || prefix.Addr().Is4In6() || !family.Has(prefix.Addr()) {
		return netif.Route{}, fmt.Errorf(
			"the destination is no %s range such as %s",
			family,
			ipfamily.Pick(family, "10.10.1.0/24", "fd10:10:1::/64"),
		)
	}
	ip, ok := unicastAddr(gateway)
	if !ok || !family.Has(ip) {
		return netif.Route{}, fmt.Errorf("the gateway is no %s address", family)
	}
	return netif.Route{Dst: prefix.Masked(), Gateway: ip}, nil
}
