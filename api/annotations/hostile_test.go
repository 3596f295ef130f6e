// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/alioth-net/alioth/api/quote"
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
var readers = map[string]func(text string) (any, error){
	"nic":         func(text string) (any, error) { return ParseNIC(text) },
	"networks":    func(text string) (any, error) { return ParseNetworks(text, "ns") },
	"interfaces":  func(text string) (any, error) { return ParseInterfaces(text) },
	"virtual":     func(text string) (any, error) { return ParseVF(text) },
	"attachments": func(text string) (any, error) { return ParseAttachmentsHashed(text) },
	"resource":    func(text string) (any, error) { return DefinitionOf(map[string]string{ResourceNameKey: text}) },
	"network":     func(text string) (any, error) { return DefinitionOf(map[string]string{NetworkKey: text}) },
	"kuryr":       func(text string) (any, error) { return DefinitionOf(map[string]string{KuryrConfigKey: text}) },
	"endpoints": func(text string) (any, error) {
		return EndpointsOf(map[string]string{NetworkKey: text, EndpointSelectorKey: `{"a": "b"}`})
	},
	"selector": func(text string) (any, error) {
		return EndpointsOf(map[string]string{NetworkKey: "n", EndpointSelectorKey: text})
	},
	"prefix": func(text string) (any, error) { return InterfaceNames([]string{"", text}, false) },
}

// documents put a hostile text into each place of an annotation.
func documents(value string) []string {
	quoted := `"` + strings.NewReplacer("\n", `\n`, "\r", `\r`, "\x1b", `\u001b`, "\x07", `\u0007`).Replace(value) + `"`
	all := []string{value, "[" + value, "{" + value, quoted, "{" + quoted + ": 1}", "[{" + quoted + ": 1}]", "{" + quoted + `: "` + `x"}`}
	for _, key := range []string{
		"name", "ip", "subnet", "namespace", "mac", "interface", "deviceID", "network", "tenantNetwork", "clusterNetwork", "vpc", "subnetId", "driverType",
		"spoofchk", "trust", "link_state", "vlanProto", "ip6", "a", "cni-args",
	} {
		all = append(
			all,
			`{"`+key+`": `+quoted+`}`,
			`[{"`+key+`": `+quoted+`}]`,
			`[{"name": "n", "`+key+`": `+quoted+`}]`,
			`[{"network": "n", "`+key+`": `+quoted+`}]`,
		)
	}
	for _, key := range []string{"altName", "kind", "definition", "outside", "outsideUID", "mac"} {
		all = append(all, `[{"`+key+`": `+quoted+`}]`)
	}
	for _, key := range []string{"parent", "mode", "pool", "ipv6"} {
		all = append(all, `[{"link": {"`+key+`": `+quoted+`}}]`)
	}
	return append(all,
		`[{"delegate": {"file": {"networkID": `+quoted+`}}}]`, `[{"delegate": {"file": {"plugins": [`+quoted+`]}}}]`, `[{"link": {"vf": {"trust": `+quoted+`}}}]`,
		`[{"name": "n", "ips": [`+quoted+`]}]`, `[{"name": "n", "default-route": [`+quoted+`]}]`, `[{"name": "n", "cni-args": {`+quoted+`: 1, `+quoted+`: 2}}]`,
		`[{"name": "n", "portMappings": [{"hostPort": 1, "containerPort": 1, "protocol": `+quoted+`}]}]`,
		`[{"name": "n", "portMappings": [{"hostPort": 1, "containerPort": 1, "hostIP": `+quoted+`}]}]`,
		`[{"network": "n", "proutes": {`+quoted+`: `+quoted+`}}]`,
	)
}

// TestErrors_HostileText_LittleRepeated: a tenant writes the texts, and errors are conditions and
// events.
func TestErrors_HostileText_LittleRepeated(t *testing.T) {
	const most = 4*quote.MaxQuoted + 1024 // a text in escapes, and the message around it
	for reader, read := range readers {
		for name, value := range hostileValues {
			for _, text := range documents(value) {
				got, err := read(text)
				if err == nil {
					shortTexts(t, reader+", "+name, reflect.ValueOf(got))
					continue
				}
				message := err.Error()
				bad := strings.IndexFunc(message, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' })
				if len(message) > most || strings.Count(message, "x") > quote.MaxQuoted+32 || bad >= 0 || !utf8.ValidString(message) {
					t.Errorf("%s, %s: the error for %.60q has %d bytes: %.300q", reader, name, text, len(message), message)
				}
				if strings.Contains(message, "\nlevel=ERROR") {
					t.Errorf("%s, %s: the error has a line of the tenant: %.300q", reader, name, message)
				}
			}
		}
	}
}

// shortTexts fails the test for a text that a reader returns and no message may repeat, but for
// raw JSON, which is decoded later.
func shortTexts(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		if text := v.String(); !quote.IsShort(text) {
			t.Errorf("%s: it returns a text of %d bytes: %.300q", name, len(text), text)
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			shortTexts(t, name, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			shortTexts(t, name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			shortTexts(t, name, v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			shortTexts(t, name, key)
			shortTexts(t, name, v.MapIndex(key))
		}
	}
}
