// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniconf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Keys of a configuration of type ipvlan or macvlan. DANM's netwatcher makes a link of the
// nodes from them.
const (
	masterKey = "master"
	vlanKey   = "vlan"
	vxlanKey  = "vxlan"
)

// Limits of the numbers: IEEE 802.1Q, RFC 7348 (24 bits).
const (
	maxVLAN  = 4094
	maxVXLAN = 1<<24 - 1
)

// deviceName matches the names that a network of DANM accepts as host_device.
var deviceName = regexp.MustCompile(`^[A-Za-z0-9_][-A-Za-z0-9_.]{0,14}$`)

// Link is the VLAN or VXLAN link below the interfaces of a plugin. Exactly one of the numbers
// is not 0.
type Link struct {
	// Master is the parent device of the link.
	Master      string
	VLAN, VXLAN uint32
}

// LinkOf returns the link that a configuration asks for, nil if it asks for none or can't be
// read. It judges nothing else.
func LinkOf(text []byte) *Link {
	l, err := Parse("", "any", text)
	if err != nil {
		return nil
	}
	link, err := l.TakeLink()
	if err != nil {
		return nil
	}
	return link
}

// TakeLink removes the number of a link from the first plugin, which does not know it, and
// returns the link; nil if the configuration asks for none.
func (l *List) TakeLink() (*Link, error) {
	if len(l.Plugins) == 0 || !slices.Contains([]string{"ipvlan", "macvlan"}, l.Plugins[0].Kind()) {
		return nil, nil
	}
	p := l.Plugins[0]
	if err := l.checkSpelling(p); err != nil {
		return nil, err
	}
	link := &Link{}
	var err error
	if link.VLAN, err = l.takeNumber(p, vlanKey, maxVLAN); err == nil {
		link.VXLAN, err = l.takeNumber(p, vxlanKey, maxVXLAN)
	}
	switch {
	case err != nil:
		return nil, err
	case link.VLAN == 0 && link.VXLAN == 0:
		return nil, nil
	case link.VLAN != 0 && link.VXLAN != 0:
		return nil, l.Wrong(l.Field(0, vxlanKey), "vlan and vxlan exclude each other", "remove one of them")
	}
	if err := json.Unmarshal(p[masterKey], &link.Master); err != nil || !deviceName.MatchString(link.Master) {
		return nil, l.Wrong(
			l.Field(0, masterKey),
			"a VLAN or VXLAN has a device of the nodes as its parent",
			`name it, for example "ens4"`,
		)
	}
	return link, nil
}

// checkSpelling refuses keys that could be read as the keys of a link.
func (l *List) checkSpelling(p Plugin) error {
	for _, key := range slices.Sorted(maps.Keys(p)) {
		for _, word := range []string{masterKey, vlanKey, vxlanKey} {
			if key != word && strings.EqualFold(key, word) {
				return l.Wrong(l.Field(0, key), "it could be read as "+word, "write it as "+word+", or remove it")
			}
		}
	}
	return nil
}

// takeNumber removes a number from 0, which stands for none, to limit.
func (l *List) takeNumber(p Plugin, key string, limit uint32) (number uint32, err error) {
	raw, ok := p[key]
	if !ok {
		return 0, nil
	}
	if err := json.Unmarshal(raw, &number); err != nil || number > limit {
		return 0, l.Wrong(
			l.Field(0, key),
			fmt.Sprintf("%.40q is not a number from 0 to %d", raw, limit),
			"correct it, or remove the key",
		)
	}
	delete(p, key)
	return number, nil
}

// OnLink returns a complete list of configurations for a link, with the link's name on the
// node as the parent of the interfaces.
func OnLink(conf []byte, name string) ([]byte, error) {
	var top map[string]json.RawMessage
	var plugins []Plugin
	err := json.Unmarshal(conf, &top)
	if err == nil {
		err = json.Unmarshal(top["plugins"], &plugins)
	}
	if err != nil || len(plugins) == 0 {
		return nil, fmt.Errorf(
			"read the configuration of a plugin on a link: %w",
			cmp.Or(err, errors.New("it has no plugins")),
		)
	}
	if err := plugins[0].Set(masterKey, name); err != nil {
		return nil, fmt.Errorf("set the parent of a plugin's interface: %w", err)
	}
	if top["plugins"], err = json.Marshal(plugins); err != nil {
		return nil, fmt.Errorf("encode the configuration of a plugin on a link: %w", err)
	}
	return json.Marshal(top)
}
