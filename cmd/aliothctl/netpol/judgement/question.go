// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package judgement answers whether network policies allow a packet, and explains it from API
// objects alone (docs/design/165): it finds the ends of the packet, lets the rules of the store
// judge, and words the result. It is pure.
package judgement

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// Name is the namespace and the name of an object.
type Name struct{ Namespace, Name string }

// String returns namespace/name.
func (n Name) String() string { return n.Namespace + "/" + n.Name }

// Sort is the sort of a Ref.
type Sort string

// Sorts of ends. The controllers stand for the pods of their templates.
const (
	IP          Sort = "IP"
	Pod         Sort = "Pod"
	Service     Sort = "Service"
	Deployment  Sort = "Deployment"
	ReplicaSet  Sort = "ReplicaSet"
	StatefulSet Sort = "StatefulSet"
	DaemonSet   Sort = "DaemonSet"
	Job         Sort = "Job"
	CronJob     Sort = "CronJob"
)

// sorts has the words for sorts, as kubectl has them, without the plural.
var sorts = map[string]Sort{
	"pod": Pod, "po": Pod, "service": Service, "svc": Service, "deployment": Deployment, "deploy": Deployment,
	"replicaset": ReplicaSet, "rs": ReplicaSet, "statefulset": StatefulSet, "sts": StatefulSet,
	"daemonset": DaemonSet, "ds": DaemonSet, "job": Job, "cronjob": CronJob, "cj": CronJob,
}

// Ref names an end of a packet: an object, or an address.
type Ref struct {
	Sort Sort
	// Name of the object.
	Name Name
	// IP of the address.
	IP netip.Addr
}

// String names the end in messages.
func (r Ref) String() string {
	if r.Sort == IP {
		return r.IP.String()
	}
	return string(r.Sort) + " " + r.Name.String()
}

// ParseRef reads NAMESPACE/POD, KIND/NAMESPACE/NAME or an IP.
func ParseRef(text string) (Ref, error) {
	if ip, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil && ip.Zone() == "" {
		return Ref{Sort: IP, IP: ip.Unmap()}, nil
	}
	parts := strings.Split(text, "/")
	sort := Pod
	if len(parts) == 3 {
		word := strings.ToLower(parts[0])
		if sort = sorts[word]; sort == "" {
			sort = sorts[strings.TrimSuffix(word, "s")]
		}
		parts = parts[1:]
	}
	if len(parts) != 2 || sort == "" || parts[0] == "" || parts[1] == "" || strings.ContainsAny(text, ":[] ") {
		return Ref{}, fmt.Errorf("%s: want NAMESPACE/POD, pod/NAMESPACE/NAME, svc/NAMESPACE/NAME or an IP", quote.Text(text))
	}
	return Ref{Sort: sort, Name: Name{parts[0], parts[1]}}, nil
}

// Port is a port with its protocol.
type Port struct {
	// Number is 0 for a port by its name.
	Number   uint16
	Name     string
	Protocol string
}

// String returns port/protocol.
func (p Port) String() string {
	if p.Number == 0 {
		return p.Name + "/" + p.Protocol
	}
	return strconv.Itoa(int(p.Number)) + "/" + p.Protocol
}

// ParseTarget reads an end with a port: TO:PORT or TO:PORT/PROTOCOL. An IPv6 address is in brackets.
func ParseTarget(text string) (Ref, Port, error) {
	at := strings.LastIndex(text, ":")
	if at < 0 {
		return Ref{}, Port{}, fmt.Errorf("%s: want TO:PORT or TO:PORT/PROTOCOL", quote.Text(text))
	}
	end, word := text[:at], text[at+1:]
	if strings.Contains(end, ":") && !strings.HasPrefix(end, "[") {
		return Ref{}, Port{}, fmt.Errorf("%s: an IPv6 address before a port is in brackets: [IP]:PORT", quote.Text(text))
	}
	port, err := parsePort(word)
	if err != nil {
		return Ref{}, Port{}, err
	}
	ref, err := ParseRef(end)
	return ref, port, err
}

func parsePort(text string) (Port, error) {
	word, protocol, ok := strings.Cut(text, "/")
	port := Port{Protocol: "TCP"}
	if ok {
		port.Protocol = strings.ToUpper(protocol)
	}
	switch port.Protocol {
	case "TCP", "UDP", "SCTP":
	default:
		return Port{}, fmt.Errorf("protocol %s: want TCP, UDP or SCTP", quote.Text(protocol))
	}
	number, err := strconv.ParseUint(word, 10, 16)
	switch {
	case err == nil && number > 0:
		port.Number = uint16(number)
	case err != nil && strings.ContainsFunc(word, func(r rune) bool { return r >= 'a' && r <= 'z' }):
		port.Name = word
	default:
		return Port{}, fmt.Errorf("port %s: want 1 to 65535, or the name of a port", quote.Text(word))
	}
	return port, nil
}

// Question asks whether policies allow a packet that opens a flow.
type Question struct {
	From, To Ref
	Port     Port
	// VPC of addresses, and of the interfaces of pods; "" means the VPC of the first interface.
	VPC string
	// Network outside of VPCs, as "namespace/name": the packet is sent there; "" means VPCs.
	Network string
}
