// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/alioth-net/alioth/api/quote"
)

const (
	// maxElements is the number of elements in a list that users write. A pod has an
	// interface, and the API a claim, for each.
	maxElements = 64
	// maxText is the length in bytes of an annotation that users write. All annotations
	// of a pod together have at most 256 KiB (Kubernetes, "Annotations"), and
	// alioth.dev/attachments repeats the routes in a longer form.
	maxText = 64 << 10
)

var (
	interfaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$`)
	labelName     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	objectName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

	// takenNames are interface names that a pod can't have anew: the loopback device,
	// and the directories of sysctls that are about all devices.
	takenNames = []string{"lo", "all", "default"}
	// takenPrefixes begin the names of Alioth's devices on the nodes. A device of a node
	// that was in a pod comes back with the name that it had there.
	takenPrefixes = []string{"alv", "alioth"}
)

// isObjectName reports whether a name is a DNS-1123 subdomain, as object names are.
func isObjectName(name string) bool { return len(name) <= 253 && objectName.MatchString(name) }

// checkInterfaceName accepts the name of an interface that Alioth creates in a pod.
func checkInterfaceName(name string) error {
	if !interfaceName.MatchString(name) {
		return fmt.Errorf("%s is no interface name: 1 to 15 letters, digits, '_', '.' or '-'", quote.Text(name))
	}
	taken := slices.ContainsFunc(takenPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	if taken || slices.Contains(takenNames, name) {
		return fmt.Errorf("the interface name %s is reserved: choose another", quote.Text(name))
	}
	return nil
}

// decodeStrict decodes one JSON object. Unknown keys, keys in another case and
// keys written twice are errors, as the API server's own strict decoding has
// them, and so is anything behind the object.
func decodeStrict(text string, into any) error {
	return decodeFrom('{', text, into)
}

// decodeList decodes a JSON list of objects as strictly, without null and with at most
// maxElements elements.
func decodeList[T any](text string) ([]*T, error) {
	if err := checkSize(text); err != nil {
		return nil, err
	}
	var list []*T
	if err := decodeFrom('[', text, &list); err != nil {
		return nil, err
	}
	if i := slices.Index(list, nil); i >= 0 {
		return nil, fmt.Errorf("element %d is null: remove it", i)
	}
	return list, checkCount(len(list))
}

func checkSize(text string) error {
	if len(text) > maxText {
		return fmt.Errorf(
			"it has %d bytes, and at most %d are accepted, because all annotations of a pod share 256 KiB",
			len(text),
			maxText,
		)
	}
	return nil
}

func checkCount(elements int) error {
	if elements > maxElements {
		return fmt.Errorf(
			"it has %d elements, and at most %d are accepted, because each is an interface of the pod",
			elements,
			maxElements,
		)
	}
	return nil
}

func decodeFrom(start byte, text string, into any) error {
	if trimmed := strings.TrimSpace(text); trimmed == "" || trimmed[0] != start {
		return at(text, strings.Index(text, trimmed), fmt.Errorf("it does not start with '%c'", start))
	}
	strict, err := kjson.UnmarshalStrict([]byte(text), into)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) { // its own text has the names of Go types
		key := wrong.Field[strings.LastIndex(wrong.Field, ".")+1:]
		what := fmt.Errorf("%s has a value of the wrong type (%s)", quote.Text(key), wrong.Value)
		if key == "" {
			what = fmt.Errorf("an object has to be where it has a %s", wrong.Value)
		}
		return at(text, int(wrong.Offset)-1, what)
	}
	return located(text, strict, err)
}

// wanted adds the expected form of an annotation to the error of a text without that form.
func wanted(what, example string, err error) error {
	return fmt.Errorf("%w; want a %s such as %s", err, what, example)
}

func value[T any](v *T) T {
	if v == nil {
		return *new(T)
	}
	return *v
}

// plainAddr reads an address without a zone. It refuses an IPv4 address inside of an IPv6
// address, because such an address would have two families.
func plainAddr(text string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(text)
	return ip, err == nil && ip.Zone() == "" && !ip.Is4In6()
}

// unicastAddr reads an address that an interface can have.
func unicastAddr(text string) (netip.Addr, bool) {
	ip, ok := plainAddr(text)
	return ip, ok && !ip.IsUnspecified() && !ip.IsMulticast() && !ip.IsLoopback()
}

// interfaceAddr reads an address that an interface can have, with or without a prefix
// length. bits is 0 without one.
func interfaceAddr(text string) (ip netip.Addr, bits int, err error) {
	plain, _, long := strings.Cut(text, "/")
	ip, ok := unicastAddr(plain)
	if !ok {
		return netip.Addr{}, 0, fmt.Errorf("%s is no unicast IPv4 or IPv6 address", quote.Text(text))
	}
	if !long {
		return ip, 0, nil
	}
	prefix, wrong := netip.ParsePrefix(text)
	if wrong != nil || prefix.Bits() == 0 {
		return netip.Addr{}, 0, fmt.Errorf(
			"%s has no prefix length from 1 to %d behind the slash",
			quote.Text(text),
			ip.BitLen(),
		)
	}
	return ip, prefix.Bits(), nil
}
