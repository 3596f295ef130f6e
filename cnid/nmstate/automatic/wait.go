// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package automatic

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// HasAddresses reports whether an interface has the addresses that a change waits for: the
// addresses of wait-ip, or without it the addresses of one family with DHCP. A link-local address
// does not count.
func HasAddresses(want, is document.Interface) bool {
	four, six := slices.ContainsFunc(listed(is.IPv4), isGlobal), slices.ContainsFunc(listed(is.IPv6), isGlobal)
	switch want.WaitIP {
	case document.WaitIPv4:
		return four
	case document.WaitIPv6:
		return six
	case document.WaitBoth:
		return four && six
	case document.WaitAny:
		return four || six
	default:
		asks := func(ip *document.IP) bool { return ip != nil && isTrue(ip.DHCP) }
		return waitsInVain(is) || four && asks(want.IPv4) || six && asks(want.IPv6) || !asks(want.IPv4) && !asks(want.IPv6)
	}
}

// waitsInVain reports whether no server can answer an interface: a dummy, or a bond or bridge
// without ports.
func waitsInVain(is document.Interface) bool {
	return is.Type == document.Dummy || (is.Bond != nil || is.Bridge != nil) && len(is.Ports()) == 0
}

// IsAwaited reports whether a change of an interface waits for its addresses. Interfaces with
// ports are not waited for without wait-ip, as in nmstate: a bridge whose ports have other VLANs
// than the bridge itself reaches no server, and works for its ports.
func IsAwaited(want document.Interface) bool {
	return want.WaitIP != "" ||
		!slices.Contains([]string{document.LinuxBridge, document.Bond, document.VRFType}, want.Type)
}

func listed(ip *document.IP) []document.Address {
	if ip == nil {
		return nil
	}
	return ip.Addresses
}

func isGlobal(a document.Address) bool {
	ip, err := netip.ParseAddr(a.IP)
	return err == nil && !ip.IsLinkLocalUnicast()
}

// Lacking is the error of an interface without such addresses.
func Lacking(want document.Interface, known Known) error {
	waits := ""
	if want.WaitIP != "" {
		waits = fmt.Sprintf(" (wait-ip: %s)", want.WaitIP)
	}
	var causes []string
	for _, family := range []struct {
		family ipfamily.Family
		ip     *document.IP
		is     bool
	}{
		{ipfamily.IPv4, want.IPv4, want.WaitIP != document.WaitIPv6},
		{ipfamily.IPv6, want.IPv6, want.WaitIP != document.WaitIPv4},
	} {
		if family.is && family.ip.IsAutomatic() {
			causes = append(causes, cause(dhcp.Key{Interface: want.Name, Family: family.family}, family.ip, known))
		}
	}
	if len(causes) == 0 {
		causes = []string{"the document gives it none"}
	}
	return fmt.Errorf("%s has no address%s: %s", want.Name, waits, strings.Join(causes, "; "))
}

// cause says why a family has no address.
func cause(key dhcp.Key, ip *document.IP, known Known) string {
	if !isTrue(ip.DHCP) {
		return fmt.Sprintf("no router advertises a network for addresses of %s", key.Family)
	}
	at := slices.IndexFunc(known.Clients, func(c Client) bool { return c.Key == key })
	switch {
	case at < 0:
		return fmt.Sprintf("%s has not begun", key)
	case known.Clients[at].Problem == "":
		return fmt.Sprintf("%s has no answer yet", key)
	default:
		return fmt.Sprintf(
			"%s: %s, since %s",
			key,
			known.Clients[at].Problem,
			known.Clients[at].Since.UTC().Format(time.RFC3339),
		)
	}
}
