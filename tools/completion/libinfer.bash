# SPDX-License-Identifier: Apache-2.0
# Completion of wconv, infer, kbench and train for bash.  The options and their
# words come from --help of the program itself.

_libinfer()
{
    local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]}
    local before=${COMP_WORDS[COMP_CWORD - 1]} help option words

    COMPREPLY=()
    # "=" is a word of its own.
    if [ "$current" = = ]; then
        current=
        option=$before
    elif [ "$before" = = ] && [ "$COMP_CWORD" -ge 2 ]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $current in
    -*) ;;
    *) [ -n "$option" ] || option=$before ;;
    esac
    help=$("$program" --help 2>/dev/null)
    case $option in
    --*)
        # A value such as on|off|exhaustive.
        words=$(printf '%s\n' "$help" |
            sed -n "s/^ .* $option\\[\\{0,1\\}=\\([a-z0-9|]*|[a-z0-9|]*\\).*/\\1/p")
        if [ -n "$words" ]; then
            mapfile -t COMPREPLY < <(compgen -W "${words//|/ }" -- "$current")
            return
        fi
        ;;
    esac
    case $current in
    -*)
        words=$(printf '%s\n' "$help" |
            sed -n 's/^ .*\(--[a-z0-9-]*\)\(\[\{0,1\}=\{0,1\}\).*/\1\2/p' |
            sed 's/\[=\{0,1\}$//')
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        case ${COMPREPLY[0]-} in
        *=) compopt -o nospace ;;
        esac
        return
        ;;
    esac
    if [ "$COMP_CWORD" = 1 ]; then
        case ${program##*/} in
        wconv) words='inspect diff' ;;
        kbench) words='conv dense pool all' ;;
        *) words= ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    fi
    compopt -o filenames
    local file
    while IFS= read -r file; do
        COMPREPLY+=("$file")
    done < <(compgen -f -- "$current")
}

complete -F _libinfer wconv infer kbench train
