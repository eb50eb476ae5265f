// Package uitest has the tests of the pages /ui and /apidocs in a real Chromium, against the real
// binary over real parts (make ui-test). They leave screenshots in UI_SCREENSHOTS, bin/ui by default.
package uitest
