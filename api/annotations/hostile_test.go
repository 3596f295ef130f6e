// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/alioth-net/alioth/api/said"
)

// hostileValues are texts inside of annotations. Each is tried plainly, and in JSON.
var hostileValues = map[string]string{
	"long":          strings.Repeat("x", 60<<10),
	"line breaks":   "a\nlevel=ERROR msg=forged\r\n",
	"escapes":       "\x1b[31mred\x1b]0;title\x07",
	"invalid bytes": "\xff\xfe\xfd",
	"direction":     "\u202egnp.exe",
	"many escapes":  strings.Repeat("\x1b", 60<<10),
}

// readers are all functions that read annotations of others.
var readers = map[string]func(text string) error{
	"nic":         func(text string) error { _, err := ParseNIC(text); return err },
	"networks":    func(text string) error { _, err := ParseNetworks(text, "ns"); return err },
	"interfaces":  func(text string) error { _, err := ParseInterfaces(text); return err },
	"virtual":     func(text string) error { _, err := ParseVF(text); return err },
	"attachments": func(text string) error { _, err := ParseAttachmentsHashed(text); return err },
	"resource":    func(text string) error { _, err := DefinitionOf(map[string]string{ResourceNameKey: text}); return err },
	"network":     func(text string) error { _, err := DefinitionOf(map[string]string{NetworkKey: text}); return err },
	"kuryr":       func(text string) error { _, err := DefinitionOf(map[string]string{KuryrConfigKey: text}); return err },
	"endpoints": func(text string) error {
		_, err := EndpointsOf(map[string]string{NetworkKey: text, EndpointSelectorKey: `{"a": "b"}`})
		return err
	},
	"selector": func(text string) error {
		_, err := EndpointsOf(map[string]string{NetworkKey: "n", EndpointSelectorKey: text})
		return err
	},
	"prefix": func(text string) error { _, err := InterfaceNames([]string{"", text}, false); return err },
}

// documents put a hostile text into each place of an annotation.
func documents(value string) []string {
	quoted := `"` + strings.NewReplacer("\n", `\n`, "\r", `\r`, "\x1b", `\u001b`, "\x07", `\u0007`).Replace(value) + `"`
	all := []string{value, "[" + value, "{" + value, quoted, "{" + quoted + ": 1}", "[{" + quoted + ": 1}]", "{" + quoted + `: "` + `x"}`}
	for _, key := range []string{
		"name", "ip", "subnet", "namespace", "mac", "interface", "deviceID", "network", "tenantNetwork", "clusterNetwork", "vpc", "subnetId", "driverType",
		"spoofchk", "trust", "link_state", "vlanProto", "ip6", "a", "cni-args",
	} {
		all = append(all, `{"`+key+`": `+quoted+`}`, `[{"`+key+`": `+quoted+`}]`, `[{"name": "n", "`+key+`": `+quoted+`}]`, `[{"network": "n", "`+key+`": `+quoted+`}]`)
	}
	return append(all,
		`[{"name": "n", "ips": [`+quoted+`]}]`, `[{"name": "n", "default-route": [`+quoted+`]}]`, `[{"name": "n", "cni-args": {`+quoted+`: 1, `+quoted+`: 2}}]`,
		`[{"name": "n", "portMappings": [{"hostPort": 1, "containerPort": 1, "protocol": `+quoted+`}]}]`,
		`[{"name": "n", "portMappings": [{"hostPort": 1, "containerPort": 1, "hostIP": `+quoted+`}]}]`,
		`[{"network": "n", "proutes": {`+quoted+`: `+quoted+`}}]`,
	)
}

// TestErrorsRepeatLittleOfWhatTheyRefuse: a tenant writes the texts, and errors are conditions
// and events.
func TestErrorsRepeatLittleOfWhatTheyRefuse(t *testing.T) {
	const most = 4*said.MaxQuoted*3 + 1024 // of each text that it repeats, in escapes
	for reader, read := range readers {
		for name, value := range hostileValues {
			for _, text := range documents(value) {
				err := read(text)
				if err == nil {
					continue
				}
				message := err.Error()
				bad := strings.IndexFunc(message, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' })
				if len(message) > most || bad >= 0 || !utf8.ValidString(message) {
					t.Errorf("%s, %s: the error for %.60q has %d bytes: %.300q", reader, name, text, len(message), message)
				}
				if strings.Contains(message, "\nlevel=ERROR") {
					t.Errorf("%s, %s: the error has a line of the tenant: %.300q", reader, name, message)
				}
			}
		}
	}
}
