// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const begin = `# API

Every kind of Alioth with its fields, from its CustomResourceDefinitions. ` + "`make docs-reference`" + ` writes this page; a test compares it.

A field with a star is required where its parent is set. *Limits* has what the API server requires of the value; an object that breaks one is refused with the same words. Fields of ` + "`status`" + ` are written by Alioth.
`

// API returns the page of the kinds in files. examples has an object of each kind.
func API(files fs.FS, examples []*unstructured.Unstructured) (string, error) {
	list, err := kinds(files)
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString(begin)
	contents(&page, list)
	for _, k := range list {
		switch k.Kind {
		case ByPeople[0]:
			page.WriteString("\n## Kinds that people write\n")
		case ByMachine[0]:
			page.WriteString(
				"\n## Kinds that Alioth writes\n\nPeople read them. No role of the chart lets people or tenants write them.\n",
			)
		}
		if err := k.write(&page, examples); err != nil {
			return "", err
		}
	}
	return page.String(), nil
}

func contents(page *strings.Builder, list []*kind) {
	page.WriteString("\n| kind | groups and versions | scope | short |\n| --- | --- | --- | --- |\n")
	for i, k := range list {
		fmt.Fprintf(
			page,
			"| [%s](#%s) | %s | %s | %s |\n",
			k.Kind,
			k.anchor(list[:i]),
			strings.Join(k.served, ", "),
			k.where(),
			strings.Join(k.ShortNames, ", "),
		)
	}
}

// anchor returns the anchor of a kind's section. A kind with several schemas has several sections.
func (k *kind) anchor(before []*kind) string {
	name, same := strings.ToLower(k.Kind), 0
	for _, other := range before {
		if strings.EqualFold(other.Kind, k.Kind) {
			same++
		}
	}
	if same > 0 {
		return fmt.Sprintf("%s-%d", name, same)
	}
	return name
}

func (k *kind) where() string {
	if k.scope == apiextensionsv1.NamespaceScoped {
		return "namespace"
	}
	return "cluster"
}

func (k *kind) write(page *strings.Builder, examples []*unstructured.Unstructured) error {
	fmt.Fprintf(page, "\n### %s\n%s\n\n", k.Kind, escaped(sentence(k.version.Schema.OpenAPIV3Schema.Description)))
	fmt.Fprintf(page, "`apiVersion: %s`; `kubectl get %s`\n", strings.Join(k.served, "` or `"), k.resource())
	for _, rule := range k.version.Schema.OpenAPIV3Schema.XValidations {
		fmt.Fprintf(page, "\n- %s", escaped(rule.Message))
	}
	if len(k.version.Schema.OpenAPIV3Schema.XValidations) > 0 {
		page.WriteString("\n")
	}
	var selectable []string
	for _, path := range k.version.SelectableFields {
		selectable = append(selectable, "`"+strings.TrimPrefix(path.JSONPath, ".")+"`")
	}
	if len(selectable) > 0 {
		fmt.Fprintf(page, "\nFields for `--field-selector`: %s.\n", strings.Join(selectable, ", "))
	}
	page.WriteString("\n| field | type | default | limits | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, f := range fieldsOf(k.version) {
		star := ""
		if f.required {
			star = " *"
		}
		fmt.Fprintf(
			page,
			"| `%s`%s | %s | %s | %s | %s |\n",
			f.path,
			star,
			f.typed,
			cell(f.defaults),
			cell(f.limits),
			cell(f.meaning),
		)
	}
	return k.example(page, examples)
}

// example writes the object of the kind, without the fields that the API server and Alioth write.
func (k *kind) example(page *strings.Builder, examples []*unstructured.Unstructured) error {
	at := slices.IndexFunc(examples, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == k.Kind && slices.Contains(k.served, o.GetAPIVersion())
	})
	if at < 0 {
		return fmt.Errorf("no example of %s in %s", k.Kind, strings.Join(k.served, ", "))
	}
	object := examples[at].DeepCopy()
	if object.Object["spec"] != nil {
		unstructured.RemoveNestedField(object.Object, "status")
	}
	text, err := yaml.Marshal(object.Object)
	if err != nil {
		return err
	}
	fmt.Fprintf(page, "\n```yaml\n%s```\n", text)
	return nil
}

// cell returns a text for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(escaped(text), "|", `\|`) }

// escaped returns a text without anything that looks like a tag of HTML. Forges leave tags out.
func escaped(text string) string { return strings.ReplaceAll(text, "<", "&lt;") }
