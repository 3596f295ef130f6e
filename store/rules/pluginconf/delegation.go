// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pluginconf builds the exact configuration that other CNI plugins get for one
// attachment. It is pure. The operator uses it to judge a configuration before a pod
// starts, the daemon to build the one that it runs.
//
// The authors of configurations are not trusted: a plugin runs as root on the node. So
// each type of plugin and of IPAM plugin has to be in a list of an administrator
// (Allowed), also where a plugin would run a further one. Package api/cniconf reads the texts.
package pluginconf

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/alioth-net/alioth/api/cniconf"
	"github.com/alioth-net/alioth/api/ipamconf"
)

// Request has the inputs of an attachment's configuration.
type Request struct {
	// Where names the source in messages, for example
	// "NetworkAttachmentDefinition customer-a/storage, spec.config".
	Where string
	// Text is a configuration or a list of configurations in JSON (CNI 1.1, section
	// "Network configuration format"), of at most cniconf.MaxText bytes.
	Text []byte
	// Name is the name of the network where Text has none.
	Name string
	// Type is the required type of the first plugin, in any case; "" for no requirement.
	Type    string
	Allowed Allowed
	// IPAM replaces the IPAM of the first plugin, for both families, where it is not nil.
	// Without an address the plugin gets no IPAM, and no CHECK.
	IPAM *IPAM
	// Args are added to "args.cni" of each plugin. Their values have precedence.
	Args map[string]json.RawMessage
	// Links: the number of a VLAN or VXLAN of the first plugin, if it is ipvlan or macvlan,
	// becomes Config.Link.
	Links bool
	// Runtime has the plugins' values for their capabilities.
	Runtime Runtime
	// Plain: values of Runtime without a plugin that has the capability may be passed in CNI_ARGS
	// (Config.Plain), where the plugin is known to read them there.
	Plain Keys
}

// Keys are values of Runtime.
type Keys struct{ IPs, MAC bool }

// Allowed are the types of plugins that an administrator has granted. An empty list
// allows none.
type Allowed struct{ Plugins, IPAM []string }

// IPAM has the addresses and routes that Alioth's IPAM plugin hands out.
type IPAM struct {
	Addresses []ipamconf.Address
	Routes    []ipamconf.Route
}

// Config is a complete list of configurations.
type Config struct {
	// Name is the name of the network, CNIVersion one of cniconf.Versions.
	Name, CNIVersion string
	// Types are the types of the plugins, in their order.
	Types []string
	// Link is the link that takes the place of the first plugin's master on the nodes
	// (cniconf.OnLink), nil for none.
	Link *cniconf.Link
	// Unserved are the capabilities of values in Runtime that no plugin has, in their
	// order: plugins do not get these values in "runtimeConfig" (NPWG 1.3, section 4.1 has
	// the attachment fail, and Multus has it go on).
	Unserved []string
	// Plain are the values of Unserved that plugins get in CNI_ARGS.
	Plain Plain
	// JSON is the list with the keys cniVersion, name, plugins and, if it is true,
	// disableCheck. The same Request always results in the same text.
	JSON []byte
}

// Check returns why the grants do not permit a configuration that Build has made. It returns nil
// if they permit it. Its error is a *cniconf.Error.
func Check(where string, conf []byte, allowed Allowed) error {
	parsed, err := cniconf.Parse(where, "", conf)
	if err != nil {
		return err
	}
	return (&list{List: parsed}).checkTypes(Request{Allowed: allowed})
}

// Build returns the configuration. All its errors are a *cniconf.Error.
func Build(r Request) (Config, error) {
	if len(r.Text) > cniconf.MaxText {
		l := &cniconf.List{Where: r.Where}
		return Config{}, l.Wrong(
			"",
			fmt.Sprintf("the configuration has %d bytes", len(r.Text)),
			fmt.Sprintf("reduce it to %d", cniconf.MaxText),
		)
	}
	parsed, err := cniconf.Parse(r.Where, r.Name, r.Text)
	if err != nil {
		return Config{}, err
	}
	l := &list{List: parsed}
	steps := []func(Request) error{
		l.checkFirst, l.takeLink, l.removeIPAM, l.addArgs,
		l.addRuntime, l.takePlain, l.checkTypes, l.addIPAM,
	}
	for _, step := range steps {
		if err := step(r); err != nil {
			return Config{}, err
		}
	}
	return l.encode()
}

// list is a parsed configuration, and its result.
type list struct {
	*cniconf.List
	// link is taken from the first plugin, nil without one.
	link *cniconf.Link
	// unserved and plain are the fields Unserved and Plain of Config.
	unserved []string
	plain    Plain
}

// checkFirst compares the type of the first plugin with the required type.
func (l *list) checkFirst(r Request) error {
	if first := l.Plugins[0].Kind(); r.Type != "" && !strings.EqualFold(first, r.Type) {
		return l.Wrong(
			l.Field(0, "type"),
			fmt.Sprintf("the first plugin is %.80q, and the network's NetworkType is %q", first, r.Type),
			"change one of them",
		)
	}
	return nil
}

// takeLink removes the number of a link from the first plugin.
func (l *list) takeLink(r Request) error {
	if !r.Links {
		return nil
	}
	var err error
	l.link, err = l.TakeLink()
	return err
}

func (l *list) encode() (Config, error) {
	c := Config{Name: l.Name, CNIVersion: l.Version, Link: l.link, Unserved: l.unserved, Plain: l.plain}
	for _, p := range l.Plugins {
		c.Types = append(c.Types, p.Kind())
	}
	var err error
	c.JSON, err = json.Marshal(struct {
		CNIVersion   string           `json:"cniVersion"`
		DisableCheck bool             `json:"disableCheck,omitempty"`
		Name         string           `json:"name"`
		Plugins      []cniconf.Plugin `json:"plugins"`
	}{l.Version, l.DisableCheck, l.Name, l.Plugins})
	if err != nil {
		return c, l.Wrong("", err.Error(), "correct the JSON")
	}
	return c, nil
}
