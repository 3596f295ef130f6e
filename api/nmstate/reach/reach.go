// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reach has the targets that a host has to reach after a change of its network, as
// policies and commands name them.
package reach

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// Target is an address that a host has to reach. Two equal ones are the same.
type Target struct {
	// Host is an IP address without a bracket, or a name.
	Host string
	// Port has to accept connections of TCP; with 0, Host has to answer echo requests.
	Port uint16
}

func (t Target) String() string {
	if t.Port == 0 {
		return t.Host
	}
	return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port)))
}

// Max bounds the targets of a change.
const Max = 128

// want describes the text of a target.
const want = "want HOST or HOST:PORT, such as 192.0.2.10, storage.example.com:443 or [2001:db8::1]:6443"

// maxName is the length of the longest name (RFC 1035).
const maxName = 253

var hostName = regexp.MustCompile(
	`^([a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?\.)*[a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?\.?$`,
)

// Parse reads a target: HOST or HOST:PORT.
func Parse(text string) (t Target, err error) {
	if t, err = split(text); err != nil {
		return Target{}, err
	}
	if ip, err := netip.ParseAddr(t.Host); err == nil {
		t.Host = ip.Unmap().String()
		return t, OneHost(ip)
	}
	name := strings.TrimSuffix(t.Host, ".")
	// The last part of a name is not a number: a text with such a part is a wrong address.
	_, notNumber := strconv.Atoi(name[strings.LastIndexByte(name, '.')+1:])
	if notNumber == nil || len(name) > maxName || !hostName.MatchString(t.Host) {
		return Target{}, fmt.Errorf("%s: %s", quote.Text(text), want)
	}
	return t, nil
}

// split cuts a port off. An IPv6 address with one is in brackets.
func split(text string) (t Target, err error) {
	if _, err := netip.ParseAddr(text); err == nil || !strings.Contains(text, ":") {
		return Target{Host: text}, nil
	}
	if inner := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"); len(inner) == len(text)-len("[]") {
		return Target{Host: inner}, nil
	}
	host, port, bad := net.SplitHostPort(text)
	if bad != nil {
		return t, fmt.Errorf("%s: %s", quote.Text(text), want)
	}
	number, bad := strconv.ParseUint(port, 10, 16)
	if bad != nil || number == 0 {
		return t, fmt.Errorf("%s: want a port from 1 to 65535", quote.Text(text))
	}
	return Target{Host: host, Port: uint16(number)}, nil
}

// ParseList reads the targets of a list. path is its name in errors.
func ParseList(path string, texts []string) ([]Target, error) {
	if len(texts) > Max {
		return nil, fmt.Errorf("%s: %d of them: want at most %d", path, len(texts), Max)
	}
	var list []Target
	var errs []error
	for n, text := range texts {
		target, err := Parse(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s[%d]: %w", path, n, err))
		}
		list = append(list, target)
	}
	return list, errors.Join(errs...)
}

// OneHost returns an error for an address that does not belong to one host. So nobody floods a
// network by the name of a target.
func OneHost(ip netip.Addr) error {
	if ip = ip.Unmap(); ip.IsUnspecified() || ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Errorf("%s: want the address of one host", ip)
	}
	return nil
}
