// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package links

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// longestName is the length limit of a device's name, in bytes (IFNAMSIZ less the zero).
const longestName = 15

// hashDigits end a name that would not be unique without them.
const hashDigits = 6

// plainName returns the name that DANM gives to a link. It returns "" if the link has none, if
// no device can have the name, or if the name is reserved for devices of Alioth.
func plainName(w Wanted) string {
	if w.NetworkID == "" || safe(w.NetworkID) != w.NetworkID || multinet.ReservedDevice(w.NetworkID) {
		return ""
	}
	name := "vx_" + w.NetworkID
	if w.Type == multinet.VLAN {
		name = w.NetworkID + vlanEnd(w)
	}
	if len(name) > longestName {
		return ""
	}
	return name
}

// hashedName returns a name that depends on identity and attempt alone, but for its
// beginning, which is for people.
func hashedName(w Wanted, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%d", w.Type, w.Device, w.VNI, attempt))
	hash := "-" + hex.EncodeToString(sum[:])[:hashDigits]
	begin, end := "vx_", ""
	if w.Type == multinet.VLAN {
		begin, end = "", vlanEnd(w)
	}
	room := longestName - len(begin) - len(hash) - len(end)
	id := safe(w.NetworkID)
	if id == "" || multinet.ReservedDevice(id) {
		id = w.Type
	}
	return begin + quote.Cut(id, room) + hash + end
}

func vlanEnd(w Wanted) string { return "." + strconv.FormatUint(uint64(w.VNI), 10) }

// safe replaces the bytes that a name of a device should not have.
func safe(id string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 &&
			(r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '_'
	}, id)
}

// chooseNames returns the name of each link that does not exist yet. taken are the names
// that other devices have. A name of DANM's form that two links of the node would have is
// used for none of them.
func chooseNames(wanted []Wanted, kept map[multinet.LinkID]string, taken map[string]bool) map[multinet.LinkID]string {
	names := map[multinet.LinkID]string{}
	claimants := map[string]int{}
	for _, w := range wanted {
		claimants[plainName(w)]++
	}
	for _, w := range wanted {
		name := kept[w.LinkID]
		if name == "" {
			name = plainName(w)
			if name == "" || claimants[name] > 1 || taken[name] {
				name = freeName(w, taken)
			}
		}
		names[w.LinkID], taken[name] = name, true
	}
	return names
}

func freeName(w Wanted, taken map[string]bool) string {
	for attempt := 0; ; attempt++ {
		if name := hashedName(w, attempt); !taken[name] {
			return name
		}
	}
}

// markWord begins the alias of a link that Alioth has made.
const markWord = "alioth-hostlink"

// Mark returns the alias of a link. By the alias a daemon recognizes the link after a restart.
func Mark(id multinet.LinkID) string {
	return fmt.Sprintf("%s %s %d %s", markWord, id.Type, id.VNI, url.PathEscape(id.Device))
}

// Marked reads an alias. It returns false for other texts.
func Marked(alias string) (multinet.LinkID, bool) {
	words := strings.Split(alias, " ")
	if len(words) != 4 || words[0] != markWord {
		return multinet.LinkID{}, false
	}
	vni, err := strconv.ParseUint(words[2], 10, 24)
	device, unescaped := url.PathUnescape(words[3])
	id := multinet.LinkID{Device: device, Type: words[1], VNI: uint32(vni)}
	known := id.Type == multinet.VLAN || id.Type == multinet.VXLAN
	return id, err == nil && unescaped == nil && known && Mark(id) == alias
}

// Unfinished is the group of a link until it has its mark (IFLA_GROUP of rtnetlink(7)). The
// request for a new device can set a group, but no alias. A name that shows it would have to
// be changed later, which would take the kernel longer than all else.
const Unfinished uint32 = 0x616c696f

// unfinished reports whether a device is a link that an ended process has not marked.
func unfinished(d Device) bool {
	return d.Group == Unfinished && d.Alias == "" && (d.Kind == multinet.VLAN || d.Kind == multinet.VXLAN)
}
