// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniconf_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/cniconf"
)

func TestParse_WrongText_RefusedWithField(t *testing.T) {
	cases := map[string]struct{ text, field, says string }{
		"no JSON (DANM case 125: a truncated configuration)": {text: `{"type":"bridge"`, says: "not valid JSON"},
		"no object":                {text: `["bridge"]`, says: "not a JSON object"},
		"null":                     {text: `null`, says: "not a JSON object"},
		"text behind":              {text: `{"type":"bridge"} {}`, says: "not valid JSON"},
		"too deep":                 {text: `{"type":"bridge","x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, says: "deeper than 32"},
		"not UTF-8":                {text: "{\"type\":\"bridge\xff\"}", says: "UTF-8"},
		"neither type nor plugins": {text: `{"cniVersion":"1.0.0"}`, field: "plugins", says: "0 plugins"},
		"plugins and type":         {text: `{"type":"bridge","plugins":[{"type":"bridge"}]}`, says: "both plugins and type"},
		"no plugins":               {text: `{"plugins":[]}`, field: "plugins", says: "0 plugins"},
		"plugins of another type":  {text: `{"plugins":{}}`, field: "plugins", says: "not a list"},
		"too many plugins": {
			text:  `{"plugins":[` + strings.Repeat(`{"type":"bridge"},`, 16) + `{"type":"bridge"}]}`,
			field: "plugins",
			says:  "17 plugins",
		},
		"a null plugin":                 {text: `{"plugins":[null]}`, field: "plugins[0]", says: "null"},
		"a plugin without a type":       {text: `{"plugins":[{"type":"bridge"},{}]}`, field: "plugins[1].type", says: "missing"},
		"a type that is no string":      {text: `{"type":7}`, field: "type", says: "not a string"},
		"an unknown version":            {text: `{"cniVersion":"1.2.0","type":"bridge"}`, field: "cniVersion", says: "use one of 0.1.0"},
		"a version that is no string":   {text: `{"cniVersion":1,"type":"bridge"}`, field: "cniVersion", says: "not a string"},
		"versions that are no list":     {text: `{"cniVersions":"1.0.0","type":"bridge"}`, field: "cniVersions", says: "not a list"},
		"a name with a path":            {text: `{"name":"../x","type":"bridge"}`, field: "name", says: "not a name"},
		"a name that is too long":       {text: `{"name":"` + strings.Repeat("a", 201) + `","type":"bridge"}`, field: "name", says: "not a name"},
		"a name that is no string":      {text: `{"name":null,"type":"bridge"}`, field: "name", says: "not a string"},
		"disableCheck":                  {text: `{"disableCheck":1,"plugins":[{"type":"bridge"}]}`, field: "disableCheck", says: "neither"},
		"a key twice":                   {text: `{"type":"bridge","type":"evil"}`, field: "type", says: "twice"},
		"a key twice, escaped":          {text: `{"type":"bridge","t\u0079pe":"evil"}`, field: "type", says: "twice"},
		"a key in another case":         {text: `{"type":"bridge","Type":"evil"}`, field: "Type", says: "could read the key as type"},
		"plugins in another letter":     {text: `{"type":"bridge","pluginſ":[{"type":"evil"}]}`, field: "pluginſ", says: "could read the key as plugins"},
		"IPAM in another case":          {text: `{"type":"bridge","IPAM":{"type":"evil"}}`, field: "IPAM", says: "could read the key as ipam"},
		"an IPAM type in another case":  {text: `{"type":"bridge","ipam":{"type":"host-local","TYPE":"evil"}}`, field: "ipam.TYPE", says: "could read"},
		"a previous result":             {text: `{"type":"bridge","prevResult":{}}`, field: "prevResult", says: "reserved"},
		"a runtimeConfig of the author": {text: `{"plugins":[{"type":"bridge","runtimeConfig":{"mac":"x"}}]}`, field: "plugins[0].runtimeConfig", says: "reserved"},
		"a reserved key": {
			text:  `{"plugins":[{"type":"bridge","cni.dev/valid-attachments":[]}]}`,
			field: "plugins[0].cni.dev/valid-attachments",
			says:  "reserved",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := cniconf.Parse("here", "net", []byte(c.text))
			var refused *cniconf.Error
			if !errors.As(err, &refused) {
				t.Fatalf("got %+v, %v; want an *Error", got, err)
			}
			if refused.Field != c.field || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "here: ") || refused.Remedy == "" {
				t.Errorf("field %q, %v; want field %q and %q", refused.Field, err, c.field, c.says)
			}
		})
	}
}

func TestParse_Configuration_AuthorTextKept(t *testing.T) {
	got, err := cniconf.Parse(
		"here",
		"net",
		[]byte(`{"cniVersion":"0.4.0","cniVersions":["1.0.0","9.0.0"],"disableCheck":"TRUE","plugins":[{"type":"bridge","n":12345678901234567890}]}`),
	)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "net" || got.Version != "1.0.0" || !got.DisableCheck || len(got.Plugins) != 1 || got.Plugins[0].Kind() != "bridge" {
		t.Errorf("got %+v", got)
	}
	if text := string(got.Plugins[0]["n"]); text != "12345678901234567890" {
		t.Errorf("the number is %s", text)
	}
	if path := got.Field(0, "n"); path != "plugins[0].n" {
		t.Errorf("the path of a key is %s", path)
	}
}

// TestPluginValue_AmbiguousText_Refused tests values that are not in the text, such as arguments of
// a pod.
func TestPluginValue_AmbiguousText_Refused(t *testing.T) {
	l := &cniconf.List{Where: "here"}
	for text, says := range map[string]string{`{"b":1}`: "", `{"b":1,"b":2}`: "args.b", `{`: "not valid JSON", `{"Type":"x"}`: "could read the key as type"} {
		err := l.CheckValue([]byte(text), "args")
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
